"""What the list's cases ask of parts that Glimpse does not have, and how it says so.

No second model drafts, so A43's draft of a shorter context, A52's draft without a head, A69's other vocabulary, A70's
foreign one and A71's foreign tokenizer cannot be loaded; no draft leaves at a layer before the last (A78). Each is
refused by name: an option is never taken and ignored.
"""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from tests.cases.doubles import self_drafting
from tests.cases.mini import mini, write_mini
from tests.cases.models import GREEDY, prompt, ref
from tests.cases.verdicts import eq
from tests.tiny import write_json, write_tiny_checkpoint, write_weights

from glimpse.cli.app import run
from glimpse.errors import ArgumentError, ModelError
from glimpse.llm import LLM

OPTIONS = {
    "A43 A52 A69 A70 A71": ("draft_model", "assistant_model", "speculative_model", "draft"),
    "A71": ("assistant_tokenizer", "draft_tokenizer"),
    "A78": ("exit_layer", "assistant_early_exit", "early_exit", "skip_layers"),
}
EACH = [(cases, option) for cases, options in OPTIONS.items() for option in options]


@pytest.mark.parametrize(("cases", "option"), EACH)
def test_a43_a52_a69_a70_a71_a78_options_of_a_second_model_are_unknown(mtiny, tiny_folder, cases, option):
    with pytest.raises(ArgumentError, match=f"unknown option '{option}'; known: drafter, "):
        mtiny.variant(**{option: str(tiny_folder)})
    with pytest.raises(TypeError, match=option):
        LLM(tiny_folder, **{option: str(tiny_folder)})


@pytest.mark.parametrize(("cases", "option"), EACH)
def test_a43_a52_a69_a70_a71_a78_flags_of_a_second_model_are_unknown(tiny_folder, capsys, cases, option):
    flag = "--" + option.replace("_", "-")
    assert run(["generate", "-m", str(tiny_folder), "--prompt", "hi", flag, "x"]) == 2
    said = capsys.readouterr().err
    assert flag in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["draft-model", "model", "assisted", "early-exit", "layerskip", "eagle", "medusa"])
def test_a43_a70_a78_drafters_that_need_another_model_are_unknown(tiny_folder, name):
    with pytest.raises(ArgumentError, match=rf"{name}.*lookup.*sparse"):
        LLM(tiny_folder, drafter=name)


def test_a52_a_model_without_a_head_is_tied_only_where_it_says_so(tmp_path):
    folder = write_mini(tmp_path / "untied")
    weights = load_file(folder / "model.safetensors")
    head = weights.pop("lm_head.weight")
    write_weights(folder, weights)
    with pytest.raises(ModelError, match=r"tensor 'lm_head.weight' is missing"):
        LLM(folder)
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"tie_word_embeddings": True})
    tied = LLM(folder, drafter="none", pacer="fixed", device="cpu")
    write_weights(folder, weights | {"lm_head.weight": head})
    right = LLM(folder, drafter="none", pacer="fixed", device="cpu")
    ids = prompt(20, "a52")
    eq(tied.generate([ids], GREEDY), ref(right, [ids]))


def test_a52_a_model_saved_without_a_head_drafts_for_itself(tmp_path):
    """SELF: the draft is the target with its own, tied, head; all of it is accepted."""
    llm = mini(tmp_path, tie_word_embeddings=True)
    ids = prompt(20, "a52")
    out = self_drafting(llm).generate([ids], GREEDY)[0]
    eq([out], ref(llm, [ids]))
    assert out.speculation.drafted > 20
    assert out.speculation.acceptance_rate == 1


def test_a52_no_checkpoint_drafts_for_another(tmp_path):
    """The names of drafters are no paths."""
    folder = write_tiny_checkpoint(tmp_path)
    with pytest.raises(ArgumentError, match="drafter"):
        LLM(folder, drafter=str(folder))

"""A34: a draft length that is asked for is used; a mode that cannot run says so."""

from __future__ import annotations

import json

import pytest
from tests.cases.models import narrow, prompt, ref
from tests.cases.verdicts import eq

from glimpse.cli import app
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

LOOP = [7] * 50
PARAMS = SamplingParams(max_tokens=60, temperature=0.0, logit_bias={7: 1000.0})


@pytest.mark.parametrize("length", [1, 4, 16])
@pytest.mark.parametrize("drafter", ["lookup", "sparse", "refresh"])
def test_a34_tokens_drafted_per_round_are_those_asked_for(mtiny, drafter, length):
    llm = mtiny.variant(drafter=drafter, pacer="fixed", draft_tokens=length)
    out = llm.generate(LOOP, PARAMS)[0]
    done = out.speculation
    assert max(done.draft_lengths) == length
    assert done.draft_lengths[length] >= done.rounds - 1
    assert out.settings["draft_tokens"] == llm.settings["draft_tokens"] == length
    assert (done.drafter, out.settings["drafter"]) == (drafter, drafter)
    assert (done.draft_steps >= done.drafted) == (drafter != "lookup")
    eq([out], ref(mtiny, [LOOP], PARAMS))


@pytest.mark.parametrize("drafter", ["lookup", "suffix", "racer", "racer+suffix", "sparse", "refresh"])
def test_a34_with_speculation_on_something_is_drafted(mtiny, drafter):
    """On text that repeats; with the drafter none, nothing is."""
    ids, params = prompt(60), narrow(SamplingParams(max_tokens=40, temperature=0.0))
    out = mtiny.variant(drafter=drafter, pacer="fixed", draft_tokens=4).generate(ids, params)[0]
    assert out.speculation.drafted > 0
    off = mtiny.variant(drafter="none").generate(ids, params)[0]
    assert (off.speculation.drafted, off.speculation.rounds, off.speculation.drafter) == (0, 0, "none")
    assert off.token_ids == out.token_ids


def test_a34_the_budget_asked_for_is_read(mtiny):
    """A sparse draft of the whole context is always right; one of few positions is not."""
    ids, params = prompt(200), SamplingParams(max_tokens=40, temperature=0.0)
    rates = {
        budget: mtiny.variant(drafter="sparse", pacer="fixed", budget=budget, budget_floor=1)
        .generate(ids, params)[0]
        .speculation.acceptance_rate
        for budget in (0.05, 1.0)
    }
    assert rates[1.0] == 1.0 > rates[0.05]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"drafter": "none", "draft_tokens": 4}, "draft_tokens 4 means nothing to drafter 'none'"),
        ({"drafter": "lookup", "budget": 0.5}, "budget 0.5 means nothing to drafter 'lookup'"),
        ({"drafter": "lookup", "budget_floor": 8}, "budget_floor 8 means nothing to drafter 'lookup'"),
        ({"drafter": "sparse", "refresh_layer": 1}, "refresh_layer 1 means nothing to drafter 'sparse'"),
        ({"drafter": "racer", "acceptance": "rejection"}, "takes chains, and drafter 'racer' gives trees"),
        ({"drafter": "assistant"}, "assistant"),
    ],
)
def test_a34_a_mode_that_cannot_run_says_so(tiny_folder, options, said):
    with pytest.raises(ArgumentError, match=said):
        LLM(tiny_folder, device="cpu", **options)


@pytest.mark.parametrize("length", ["1", "4", "16"])
def test_a34_flags_of_the_command_line_get_there(tiny_folder, capsys, length):
    given = ["--drafter", "lookup", "--pacer", "fixed", "--draft-tokens", length, "--device", "cpu"]
    text = ["--prompt", "aaaaaaaaaaaaaaaa", "--max-tokens", "20", "--temperature", "0", "--suppress-tokens"]
    rest = ",".join(str(token) for token in range(300) if token not in (70, 71))
    assert app.run(["generate", "-m", str(tiny_folder), *given, *text, rest, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["settings"]["draft_tokens"] == int(length)
    assert told["speculation"]["drafted"] > 0
    assert len(told["speculation"]["acceptance_by_position"]) <= int(length)

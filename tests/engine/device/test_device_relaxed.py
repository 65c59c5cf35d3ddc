"""Lossy rules as device steps: the eager engine's text where drafts are the same, and plain text where strict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doubles import HostDrafter, with_parts
from engine.device.engines import ids_of, on_device, prompts_of, tiny_folder
from glimpse.acceptance.relaxed.walks import TopK
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.device.eligible import why_not_engine
from glimpse.engine.device.relaxed import relaxed_of
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("relaxed"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


def params_of(*tokens, **more):
    """Greedy, and sampled at two temperatures."""
    return [
        SamplingParams(max_tokens=most, temperature=(0.0, 0.9, 0.5)[row % 3], seed=row + 3, ignore_eos=True, **more)
        for row, most in enumerate(tokens)
    ]


class Elsewhere(HostDrafter):
    """Drafts what was written elsewhere, from a row's second token on (the first step of the two engines differs)."""

    def __init__(self, texts):
        super().__init__()
        self.texts = texts

    def proposal(self, rows, slot, room):
        prompt = int(rows.rows.prompt_len[slot])
        done = int(rows.rows.committed_len[slot]) - prompt
        return self.texts[prompt][done : done + room] if done else []


@pytest.mark.parametrize(("mode", "cuts"), [("typical:0.1", {"top_k": 60, "top_p": 0.95}), ("top-k:8", {})])
def test_chains_of_the_host_are_judged_as_by_the_eager_engine(llm, mode, cuts):
    """Four requests over three rows: the same text, and as many tokens that the rule alone let pass."""
    prompts, params = prompts_of(llm, 12, 9, 7, 11), params_of(8, 11, 9, 6, **cuts)
    others = ids_of(
        llm.generate(prompts, [replace(own, temperature=1.0, top_k=0, top_p=1.0, seed=99) for own in params])
    )
    texts = {len(prompt): ids for prompt, ids in zip(prompts, others, strict=True)}
    options = {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 4, "lossy": mode}
    eager = with_parts(llm, Elsewhere(texts), **options).generate(prompts, params)
    made = llm.variant(**options)
    parts = replace(make_parts(llm.loaded, made.options), drafter=Elsewhere(texts))
    assert why_not_engine(parts) is None
    made._engine = device_engine(parts, made.options)
    device = made.generate(prompts, params)
    assert ids_of(device) == ids_of(eager)
    for mine, right in zip(device, eager, strict=True):
        found, wanted = mine.speculation, right.speculation
        assert (found.drafted, found.accepted, found.relaxed) == (wanted.drafted, wanted.accepted, wanted.relaxed)
        assert found.lossy == wanted.lossy is not None
        assert not found.lossless
    assert sum(out.speculation.relaxed for out in device) > 0
    assert [out.speculation.relaxed for out in device][::3] == [0, 0], "nothing is relaxed at temperature 0"


@pytest.mark.parametrize(("mode", "options"), [("typical:inf", {"pacer": "fixed", "draft_tokens": 3}),
                                               ("top-k:0", {"pacer": "entropy"})])  # fmt: skip
def test_strict_rules_write_plain_text(llm, mode, options):
    prompts, params = prompts_of(llm, 20, 37, 12, 9), params_of(6, 8, 5, 4)
    device = on_device(llm, drafter="sparse", lossy=mode, budget_floor=8, **options).generate(prompts, params)
    assert ids_of(device) == ids_of(llm.generate(prompts, params))
    assert [out.speculation.relaxed for out in device] == [0] * 4


@pytest.mark.parametrize("options", [{"pacer": "fixed", "draft_tokens": 3}, {"pacer": "entropy"}])
def test_the_models_own_drafts_pass_where_any_likely_one_does(llm, monkeypatch, options):
    """Every draft is accepted then, in steps alike and in mixed ones, and those beside the picks are counted."""
    monkeypatch.setattr("glimpse.cache.recall.RecallBudget.positions", lambda budget, length: 4)
    prompts, params = prompts_of(llm, 20, 37, 12), [
        SamplingParams(max_tokens=10, temperature=1.0, seed=row, ignore_eos=True) for row in range(3)
    ]  # fmt: skip
    device = on_device(llm, drafter="sparse", lossy="top-k:1000", budget_floor=8, **options).generate(prompts, params)
    made = [out.speculation for out in device]
    assert all(own.accepted == own.drafted > 0 or own.drafted - own.accepted <= 3 for own in made), made
    assert all(0 <= own.relaxed <= own.accepted for own in made)


def test_what_the_device_does_not_know_stays_eager(llm):
    class Own(TopK):
        """Of another package."""

    assert relaxed_of(TopK(2)) is not None
    assert relaxed_of(Own(2)) is None
    for options in ({"drafter": "lookup", "lossy": "entropy-gated"}, {"drafter": "racer", "lossy": "typical"},
                    {"drafter": "sparse", "lossy": "cactus"}):  # fmt: skip
        reason = why_not_engine(on_device(llm, **options)._engine.parts)
        assert reason is not None
        assert options["lossy"] in reason

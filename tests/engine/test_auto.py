"""The drafter `auto` through the engine: plain decoding's text whoever drafts, and what it says of its choices."""

from __future__ import annotations

import random

import pytest
from tests.engine.test_retrieval import jobs, run

from glimpse.drafting.auto import SELF
from glimpse.engine.device.eligible import why_not_engine
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.pacing.auto_choice import Chooser
from glimpse.pacing.fixed import FixedPacer
from glimpse.sampling import SamplingParams


class Restless(Chooser):
    """Takes somebody at random at every look."""

    draw = random.Random(4)

    def decide(self, position, speeds):
        self.current = self.draw.choice([*speeds, SELF])
        return True


class Eager(FixedPacer):
    """Self-drafted chains of 3, whatever they cost."""

    DEFAULT_MOST = 3

    def __init__(self, context):
        super().__init__(3)

    def speeds(self, rows):
        return [1.0] * len(rows)

    def cost(self, row, drafted):
        return 1.0 + drafted

    def hope(self, slot, survival):
        pass


@pytest.fixture(scope="module")
def plain(tiny):
    return [tiny.generate([ids], params)[0] for ids, params in jobs()]


@pytest.fixture
def restless(tiny, monkeypatch):
    monkeypatch.setattr("glimpse.pacing.auto.Chooser", Restless)
    monkeypatch.setattr("glimpse.pacing.auto.EntropyPacer", Eager)
    monkeypatch.setattr("glimpse.pacing.auto.LOOK", 1)
    return tiny.variant(drafter="auto", pacer=None)


def nothing_left(llm):
    parts = llm._engine.parts
    assert not parts.drafter._rows
    assert not parts.drafter.sparse._states
    assert not parts.pacer._rows
    assert not parts.pacer._trees._states
    assert (parts.pool.free_pages, parts.pool.promised) == (parts.pool.pages, 0)
    assert not parts.rows.branching


def test_the_text_is_plain_decodings(tiny, plain):
    llm = tiny.variant(drafter="auto", pacer=None)
    outputs = run(llm)
    assert [out.token_ids for out in outputs] == [out.token_ids for out in plain]
    assert [out.finish_reason for out in outputs] == [out.finish_reason for out in plain]
    nothing_left(llm)


def test_so_it_is_whoever_drafts_next_and_whatever_others_do(restless, plain):
    """A batch of rows that draft by trees, by chains of their own and not at all, each changing its mind."""
    outputs = run(restless)
    assert [out.token_ids for out in outputs] == [out.token_ids for out in plain]
    taken = {choice.drafter for out in outputs for choice in out.speculation.choices}
    assert taken == set(restless._engine.parts.drafter.candidates)
    assert sum(out.speculation.draft_steps for out in outputs) > 20, "some drafted for themselves"
    assert sum(out.speculation.accepted for out in outputs) > 20
    nothing_left(restless)


@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_alone_too(restless, tiny, rule):
    llm = restless.variant(acceptance=rule)
    for seed in range(4):
        ids = random.Random(seed).choices(range(3, 300), k=30) * 2
        params = SamplingParams(max_tokens=40, temperature=0.0)
        assert llm.generate([ids], params)[0].token_ids == tiny.generate([ids], params)[0].token_ids


def test_a_request_put_back_goes_on_with_the_same_text(restless, tiny):
    ids, params = [5, 6, 7, 8] * 9, SamplingParams(max_tokens=40, temperature=0.6, seed=3)
    [request] = restless._requests([ids], params)
    engine = restless._engine
    engine.add(request)
    while not request.finished:
        engine.step()
        if len(request.committer.token_ids) in range(5, 9) and not request.preempted:
            assert engine.preempt(request)
    assert request.preempted
    assert tuple(request.committer.token_ids) == tiny.generate([ids], params)[0].token_ids
    nothing_left(restless)


def test_choices_are_explained(restless):
    out = restless.generate([[5, 6, 7, 8] * 9], SamplingParams(max_tokens=40, temperature=0.0))[0]
    choices = out.to_json()["speculation"]["choices"]
    assert choices[0]["position"] >= 1
    assert [choice["position"] for choice in choices] == sorted(choice["position"] for choice in choices)
    assert set(choices[0]["expected"]) == set(restless._engine.parts.drafter.candidates)
    assert choices[0]["plain_ms"] > 0
    assert out.speculation.pacer == out.settings["pacer"] == "auto"


def test_other_drafters_have_no_choices(tiny):
    out = tiny.generate([[5, 6, 7]], SamplingParams(max_tokens=4))[0]
    assert "choices" not in out.to_json()["speculation"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"drafter": "auto", "pacer": "entropy"}, "pacer 'entropy' does not go with drafter 'auto'"),
        ({"drafter": "lookup", "pacer": "auto"}, "pacer 'auto' does not go with drafter 'lookup'"),
        ({"drafter": "auto", "pacer": None, "acceptance": "rejection"}, "'coupled' and 'matched' take them"),
    ],
)
def test_what_does_not_go_together_is_refused(tiny, tiny_folder, options, said):
    with pytest.raises(ArgumentError, match=said):
        tiny.variant(**options)
    with pytest.raises(ArgumentError, match=said):
        LLM(tiny_folder, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "auto"),
        ({"pacer": "auto"}, "auto"),
        ({"acceptance": "matched", "suffix_store": "mine"}, "auto"),
        ({"pacer": "fixed"}, "lookup"),
        ({"acceptance": "rejection"}, "lookup"),
        ({"lossy": "typical:0.3"}, "lookup"),
        ({"lossy": "cactus"}, "sparse"),
    ],
)
def test_a_drafter_left_out_is_this_one_where_it_goes_with_the_rest(tiny_folder, options, name):
    assert LLM(tiny_folder, device="cpu", max_batch_size=1, max_context=64, **options).settings["drafter"] == name


def test_pacers_left_out_are_the_drafters_own(tiny):
    assert tiny.variant(drafter="auto", pacer=None).settings["pacer"] == "auto"
    assert tiny.variant(drafter="lookup", pacer=None).settings["pacer"] == "entropy"
    assert tiny.variant(drafter="auto", pacer=None, draft_tokens=5)._engine.parts.rows.max_draft == 5
    assert tiny.variant(drafter="auto", pacer=None).settings["budget"] == 0.1


def test_with_self_drafting_it_is_nothing_for_the_device_engine(tiny):
    parts = tiny.variant(drafter="auto", pacer=None)._engine.parts
    assert why_not_engine(parts) == "drafter 'auto' gives trees beside self-drafts"

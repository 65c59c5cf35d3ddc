"""What drafters hear of prompts: what the eager path says, when it is wanted, and where that is worth what it costs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.doubles import with_parts
from tests.drafting.histories import rows_of

from engine.device.engines import greedy, ids_of, prompts_of
from engine.device.test_device_trees import few_processors, folder, llm, with_trees
from glimpse.drafting.racer.drafter import RacerDrafter
from glimpse.engine.device.asking import NEW
from glimpse.engine.device.prompt_topk import ANYWAY, RARELY, Hearing, PromptTopK, worth_hearing

__all__ = ["few_processors", "folder", "llm"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """The interpreter takes seconds for 256 positions."""
    monkeypatch.setattr("glimpse.engine.device.prompt_topk.PIECE", 8)


class Listening(RacerDrafter):
    """Keeps what it is told of prompts."""

    def __init__(self):
        super().__init__(4)
        self.wants_prompt_topk, self.told = True, []

    def recycle(self, slot, successors):
        self.told.append(successors)
        super().recycle(slot, successors)


def test_drafters_hear_of_prompts_what_the_eager_path_says(llm, monkeypatch):
    """A prompt read in two parts; its last token is read again with the first tree."""
    for module in ("prefill", "reading"):
        monkeypatch.setattr(f"glimpse.engine.device.{module}.CHUNK", 8)
    (prompt,) = prompts_of(llm, 9)
    plain, device = Listening(), Listening()
    outputs = [
        with_parts(llm, plain, draft_tokens=4).generate([prompt], greedy(3)),
        with_trees(llm, device, draft_tokens=4).generate([prompt], greedy(3)),
    ]
    assert ids_of(outputs[0]) == ids_of(outputs[1])
    right, (first, second, *_) = plain.told[0], device.told
    assert [len(first.tokens), len(second.tokens)] == [5, 4]
    assert torch.equal(torch.cat([first.tokens, second.tokens]), right.tokens)
    assert torch.equal(torch.cat([first.likeliest, second.likeliest]), right.likeliest)
    torch.testing.assert_close(torch.cat([first.chances, second.chances]), right.chances)


def test_what_was_read_of_a_prompt_is_its_requests_alone(llm):
    """Told before the row's first draft; nothing of a request that left before it."""
    decoder = llm.loaded.checkpoint.decoder
    parts = SimpleNamespace(
        decoder=decoder, drafter=Listening(), sampler=SimpleNamespace(vocab=decoder.spec.vocab_size)
    )
    topk, told = PromptTopK(parts), parts.drafter.told
    hidden = torch.randn(5, decoder.spec.hidden_size)
    parts.drafter.admit(rows_of([1, 2, 3], [4, 5]))
    with torch.inference_mode():
        topk.note([0, 1], [torch.tensor([1, 2, 3]), torch.tensor([4, 5])], hidden)
        topk.note([0], [torch.tensor([6])], hidden[:1])
    assert told == []
    topk.forget(1)
    topk.tell([1, 0])
    assert [found.tokens.tolist() for found in told] == [[1, 2, 3], [6]]
    assert torch.equal(told[1].likeliest, told[0].likeliest[:1])
    topk.tell([0])
    assert len(told) == 2


def test_it_is_told_in_pieces_that_have_arrived(llm, monkeypatch):
    """Where nobody waits for it: a piece at a time, in order, and none that is still on its way."""
    monkeypatch.setattr("glimpse.engine.device.prompt_topk.PIECE", 2)
    decoder = llm.loaded.checkpoint.decoder
    parts = SimpleNamespace(
        decoder=decoder, drafter=Listening(), sampler=SimpleNamespace(vocab=decoder.spec.vocab_size)
    )
    topk, told = PromptTopK(parts), parts.drafter.told
    parts.drafter.admit(rows_of([1, 2, 3]))
    with torch.inference_mode():
        topk.note([0], [torch.tensor([1, 2, 3])], torch.randn(3, decoder.spec.hidden_size))
    with monkeypatch.context() as late:
        late.setattr("glimpse.engine.device.mail.Mark.reached", property(lambda mark: False))
        assert topk.tell_piece(0)
        assert told == []
    assert [topk.tell_piece(0) for _ in range(3)] == [True, True, False]
    assert [found.tokens.tolist() for found in told] == [[1, 2], [3]]
    topk.tell([0])
    assert len(told) == 2


def test_prompts_are_not_heard_of_where_that_is_not_worth_it(llm, monkeypatch):
    """Then the drafter hears of steps only, of at most a tree and its root."""
    monkeypatch.setattr("glimpse.engine.device.host_side.worth_hearing", lambda *given: False)
    device = Listening()
    (prompt,) = prompts_of(llm, 9)
    outputs = with_trees(llm, device, draft_tokens=4).generate([prompt], greedy(3))
    assert ids_of(outputs) == ids_of(llm.generate([prompt], greedy(3)))
    assert max(len(told.tokens) for told in device.told) <= 5


@pytest.mark.parametrize(("speed", "worth"), [(0.9, False), (1.1, True), (None, True)])
def test_what_is_worth_hearing(speed, worth):
    """Where drafts do not slow the batch down as far as is known."""
    asking = SimpleNamespace(
        speed=lambda rows, doubts: speed if rows == (7, NEW) else 0.0, plain_seconds=lambda rows: None, doubts=0.0,
        fair=False,
    )  # fmt: skip
    assert worth_hearing(asking, (7,), 100, 0.0) is worth
    assert worth_hearing(None, (7,), 100, 9.0)


@pytest.mark.parametrize(("seconds", "worth"), [(0.009, True), (0.011, False)])
def test_a_prompt_is_heard_of_where_drafts_save_what_that_costs_all_rows(seconds, worth):
    """100 tokens in steps of 1 ms that drafts make 1.25 times as fast: 20 ms, of which each of two rows costs half."""
    asking = SimpleNamespace(speed=lambda rows, doubts: 1.25, plain_seconds=lambda rows: 0.001, doubts=0.0, fair=True)
    assert worth_hearing(asking, (7,), 100, seconds) is worth


@pytest.mark.parametrize("fair", [True, False])
def test_prompts_have_the_benefit_of_the_doubt_where_nobody_waits(fair):
    """0.9 is expected, and an error more would be 1.2."""
    asking = SimpleNamespace(
        speed=lambda rows, doubts: 0.9 + 0.3 * doubts, plain_seconds=lambda rows: 0.001, doubts=0.0, fair=fair
    )
    assert worth_hearing(asking, (7,), 100, 0.0) is not fair


def test_what_prompts_cost_is_measured(llm, monkeypatch):
    device = Listening()
    (prompt,) = prompts_of(llm, 9)
    made = with_trees(llm, device, draft_tokens=4)
    topk = made._engine._host.topk
    made.generate([prompt], greedy(3))
    assert topk.seconds(1000) == 0.0, "the first one's kernels were compiled"
    made.generate([prompt], greedy(3))
    assert topk.seconds(10) == pytest.approx(10 * (min(topk._found) + min(topk._told)))
    topk._found.appendleft(1e9)
    assert topk.seconds(10) < 1e6, "one time that is far off says nothing"


def test_prompts_that_are_not_worth_it_are_heard_of_ever_more_seldom():
    hearing = Hearing()
    found = [hearing.hears(worth=False) for _ in range(4 * RARELY)]
    gaps = np.diff([-1, *np.flatnonzero(found)]) - 1
    assert gaps.tolist()[:6] == [ANYWAY, 2 * ANYWAY, 4 * ANYWAY, 8 * ANYWAY, RARELY, RARELY]
    assert hearing.hears(worth=True)
    assert [hearing.hears(worth=False) for _ in range(ANYWAY + 1)] == [False] * ANYWAY + [True]

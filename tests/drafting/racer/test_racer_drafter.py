"""RACER over rows: requests apart, memory freed, budgets and depths kept, what it learns."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.drafting.histories import POOL, rows_of

from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import DraftContext, Drafter, Outcome, Successors
from glimpse.drafting.packed import PackedSuccessors
from glimpse.drafting.racer import together
from glimpse.drafting.racer.drafter import RacerDrafter, RacerSource, RacerSuffixDrafter
from glimpse.drafting.racer.successors import WIDTH
from glimpse.drafting.reader import LateReader, trees_of
from glimpse.drafting.suffix.drafter import SuffixDrafter
from glimpse.drafting.tree import Source, draft_of
from glimpse.errors import ArgumentError


def admitted(*texts, **options):
    drafter, view = RacerDrafter(**options), rows_of(*texts)
    drafter.admit(view)
    return drafter, view


def commit(drafter, view, slot, tokens, drafted=0, successors=None):
    view.rows.commit(slot, tokens, int(view.rows.committed_len[slot]))
    drafter.absorb(view, [Outcome(slot, drafted, 0, tokens, successors=successors)])


def after(token, *successors):
    top = torch.tensor([[*successors, *range(900, 900 + WIDTH - len(successors))]])
    chances = torch.tensor([[0.5**rank for rank in range(1, WIDTH + 1)]])
    return Successors(torch.tensor([token]), top, chances)


def learn(drafter, slot, token, *successors):
    drafter.recycle(slot, after(token, *successors))


@pytest.mark.parametrize("kind", [RacerDrafter, RacerSuffixDrafter])
def test_it_is_a_drafter(kind):
    drafter: Drafter = kind.build(DraftContext(POOL, RecallBudget(), nodes=12))
    assert (drafter.gives_tree, drafter.wants_successors, drafter.lossless) == (True, True, True)
    assert not drafter.wants_prompt_topk, "on a CPU prompts are not worth their logits"
    assert (drafter.budget, drafter.suffix) == (12, kind is RacerSuffixDrafter)
    assert drafter.ready(rows_of([1], [2])) == [True, True]


@pytest.mark.parametrize(("rows", "priced", "most"), [(1, True, 40), (64, True, 12), (200, True, 8), (64, False, 40)])
@pytest.mark.parametrize("kind", [RacerDrafter, RacerSuffixDrafter, SuffixDrafter])
def test_a_batch_whose_nodes_are_priced_is_drafted_no_more_than_may_pay(kind, rows, priced, most):
    """Who asked for so many nodes gets them; of others the first ones are left."""
    drafter = kind.build(DraftContext(POOL, RecallBudget(), nodes=40, priced=priced))
    text = list(range(5, 75)) * 2
    view = rows_of(*[text] * rows)
    drafter.admit(view)
    alone = drafter.plan(view.rows_of(0), [60]).tokens.tolist()
    assert len(alone) >= 9
    draft = drafter.plan(view, [60] * rows)
    assert draft.tokens.tolist() == alone[:most] * rows


def test_outcomes_bring_the_logits_of_every_node():
    drafter, view = admitted([1, 2, 3])
    commit(drafter, view, 0, [7], 1, after(7, 8, 9))
    assert drafter.plan(view, [1]).tokens.tolist()[:2] == [8, 9]
    assert set(drafter.plan(view, [1]).source.tolist()) == {Source.LOGITS}


def packed(*rows):
    """Of one step, which fed so many tokens of each row: as a device writes them."""
    fed = np.concatenate([tokens for tokens, _ in rows])
    lines = [np.concatenate([ids.astype(np.int32), chances.view(np.int32)], 1) for _, (ids, chances) in rows]
    ends = np.cumsum([len(tokens) for tokens, _ in rows]).tolist()
    step = fed, np.concatenate(lines)
    return [PackedSuccessors(step, begin, end) for begin, end in pairwise([0, *ends])]


def some_logits(draw, ids):
    """Of a few tokens, with one twice: chances as logits have them, with holes."""
    fed = draw.integers(0, ids, draw.integers(0, 9))
    successors = np.stack([draw.permutation(ids)[:WIDTH] for _ in fed]) if len(fed) else np.zeros((0, WIDTH), int)
    chances = -np.sort(-draw.dirichlet(np.ones(WIDTH), len(fed)), axis=1).astype(np.float32)
    chances[np.arange(WIDTH) >= draw.integers(1, WIDTH + 1, (len(fed), 1))] = 0
    return fed, (successors, chances)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [1, 12, 64])
def test_all_rows_in_one_call_are_what_their_sources_do_one_by_one(seed, budget):
    """Reading, drafting and logits, step after step; tables grow, rows come and go, and are drafted for in any
    order."""
    draw = np.random.default_rng(seed)
    texts = [draw.integers(0, 12, 20 + 7 * row).tolist() for row in range(4)]
    drafter, view = admitted(*texts, budget=budget)
    sources = {slot: LateReader(RacerSource()) for slot in view.slots}
    for step in range(12):
        slots = draw.permutation(4)[: draw.integers(1, 5)].tolist()
        own = RowView(view.rows, tuple(slots))
        room = draw.integers(0, 20, len(slots)).tolist()
        draft, right = drafter.plan(own, room), draft_of(trees_of(sources, own, room, budget))
        assert draft.offsets == right.offsets
        for name in ("tokens", "parents", "confidence", "source"):
            mine, theirs = getattr(draft, name), getattr(right, name)
            assert mine.dtype == theirs.dtype
            assert torch.equal(mine, theirs), name
        laid = packed(*[some_logits(draw, 12 if step < 6 else 300) for _ in slots])
        outcomes = []
        for slot, successors in zip(slots, laid, strict=True):
            tokens = draw.integers(0, 12, draw.integers(1, 4)).tolist()
            view.rows.commit(slot, tokens, int(view.rows.committed_len[slot]))
            outcomes.append(Outcome(slot, 0, 0, tokens, successors=successors))
            sources[slot].source.recycle(successors)
        drafter.absorb(own, outcomes)
        if step % 4 == 3:
            gone = view.rows_of(slots[0])
            drafter.retire(gone)
            drafter.admit(gone)
            sources[slots[0]] = LateReader(RacerSource())


def test_logits_of_several_steps_are_taken_over_too():
    drafter, view = admitted([1, 2], [1, 3])
    first, second = (packed((np.array([token]), (np.arange(8)[None] + 5, np.full((1, 8), 0.1, np.float32))))[0]
                     for token in (2, 3))  # fmt: skip
    drafter.absorb(view, [Outcome(0, 0, 0, [], successors=first), Outcome(1, 0, 0, [], successors=second)])
    assert drafter.plan(view, [1, 1]).tokens.tolist() == [*range(5, 13)] * 2


def test_a_small_vocabulary_has_fewer_successors():
    drafter, view = admitted([1, 2])
    drafter.recycle(0, Successors(torch.tensor([2]), torch.tensor([[0, 1, 2]]), torch.tensor([[0.5, 0.3, 0.2]])))
    assert drafter.plan(view, [1]).tokens.tolist() == [0, 1, 2]


def test_retrieved_and_recycled_in_one_tree():
    drafter, view = admitted([1, 2, 3, 4, 1, 2])
    learn(drafter, 0, 2, 3, 50)
    draft = drafter.plan(view, [10])
    assert draft.tokens.tolist()[:2] == [3, 4]
    assert draft.source[:2].tolist() == [Source.AUTOMATON] * 2
    assert 50 in draft.tokens.tolist()
    assert draft.offsets == (0, len(draft.tokens))
    assert draft.confidence.max() <= 1
    assert draft.law is None


def test_rows_budget_and_depth():
    drafter, view = admitted([1, 2, 3, 4, 5, 1, 2], [1, 2, 3, 4, 5, 1, 2], [7], budget=16)
    for token in range(1, 6):
        learn(drafter, 1, token, token + 1)
    draft = drafter.plan(view, [2, 5, 0])
    assert draft.tokens[: draft.offsets[1]].tolist() == [3, 4]
    assert draft.offsets[2] - draft.offsets[1] == 16
    assert draft.offsets[3] == draft.offsets[2]
    assert drafter.plan(view, [0, 0, 0]).offsets == (0, 0, 0, 0)


@pytest.mark.parametrize("text", [[], [5], [5, 5]])
def test_short_histories(text):
    drafter, view = admitted(text, suffix=True)
    draft = drafter.plan(view, [1])
    assert draft.tokens.tolist() == text[1:]


def test_committed_tokens_are_retrieved():
    drafter, view = admitted([1, 2, 3])
    commit(drafter, view, 0, [9, 1, 2])
    assert drafter.plan(view, [3]).tokens.tolist() == [3, 9, 1]
    commit(drafter, view, 0, [], 4)
    assert drafter.plan(view, [1]).tokens.tolist() == [3]


def test_interleaved_requests_do_not_see_one_another():
    one, other = list(range(10, 30)), list(range(110, 130))
    drafter, view = admitted(one, other, suffix=True)
    learn(drafter, 0, 29, 12)
    for step in range(40):
        commit(drafter, view, 0, [one[step % 20]])
        commit(drafter, view, 1, [other[(3 * step) % 20]])
        draft = drafter.plan(view, [8, 8])
        mine, yours = draft.tokens[: draft.offsets[1]], draft.tokens[draft.offsets[1] :]
        assert all(token < 100 or token >= 900 for token in mine.tolist())
        assert all(100 <= token < 130 for token in yours.tolist())


def test_retire_frees_and_a_new_request_starts_afresh():
    """A35: later requests are drafted for like the first, and see nothing of it."""
    drafter, view = admitted([1, 2, 3, 1, 2], suffix=True)
    source = weakref.ref(drafter._sources[0].source)
    learn(drafter, 0, 2, 3)
    drafter.retire(view)
    gc.collect()
    assert source() is None
    drafter.retire(view)
    fresh = rows_of([5, 1, 2])
    drafter.admit(fresh)
    assert drafter.plan(fresh, [8]).tokens.tolist() == []


@pytest.mark.parametrize("suffix", [False, True])
def test_drafts_go_beyond_n_grams(suffix):
    """A match of 30 tokens: the sources go on as far as they are sure enough."""
    page = list(range(100, 200))
    drafter, view = admitted([*page, 1, *page[:30]], suffix=suffix)
    assert drafter.plan(view, [40]).tokens.tolist() == page[30:70]


@pytest.mark.parametrize("budget", [0, -4, 257])
def test_wild_budgets_are_refused(budget):
    with pytest.raises(ArgumentError, match=f"{budget} nodes: give 1 to 256"):
        RacerDrafter(budget)


def test_what_is_told_of_a_row_that_has_left_is_written_nowhere(monkeypatch):
    """Where its table lay is somebody else's now."""
    written = []
    monkeypatch.setattr("glimpse.drafting.racer.together.recycle", lambda *given: written.append(given) or [])
    drafter, view = admitted([1, 2, 3])
    drafter.retire(view)
    with pytest.raises(KeyError):
        drafter.absorb(view, [Outcome(0, 0, 0, [4])])
    assert not written


def test_loops_over_batches_are_compiled_when_the_drafter_is_made(monkeypatch):
    """Not in a step: that takes seconds where no earlier use left them."""
    called = []
    for name in ("_draft", "_recycle"):
        loop = getattr(together, name)
        monkeypatch.setattr(together, name, lambda *given, loop=loop, name=name: (called.append(name), loop(*given))[1])
    RacerDrafter.build(DraftContext(POOL, RecallBudget(), nodes=12))
    assert called == ["_draft", "_recycle"]

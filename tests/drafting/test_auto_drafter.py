"""The drafter `auto`: its candidates, and that every source is right again after it was not asked for a while."""

from __future__ import annotations

import random

import pytest
from tests.drafting.histories import POOL, rows_of

from glimpse.cache.recall import RecallBudget
from glimpse.drafting import DRAFTERS
from glimpse.drafting.auto import PLAIN, SELF, AutoDrafter, makers
from glimpse.drafting.drafter import DraftContext, Outcome
from glimpse.drafting.lookup import LookupDrafter
from glimpse.drafting.suffix.store import SuffixStore

HOST = ("lookup", "suffix", "racer", "racer+suffix")


def built(**context) -> AutoDrafter:
    return AutoDrafter.build(DraftContext(POOL, RecallBudget(), nodes=8, **context))


def commit(drafter: AutoDrafter, view, tokens: list[int]) -> None:
    view.rows.commit(0, tokens, int(view.rows.committed_len[0]))
    drafter.absorb(view, [Outcome(0, 0, 0, tokens)])


def test_candidates_are_the_drafters_that_offer_a_source_and_the_self_drafter():
    drafter = built()
    assert set(drafter.candidates) == {PLAIN, *HOST, SELF}
    assert set(makers()) == {name for name in DRAFTERS.builtin if hasattr(DRAFTERS.get(name), "source_of")}


def test_nobody_drafts_before_somebody_is_chosen():
    drafter, view = built(), rows_of([1, 2, 3])
    drafter.admit(view)
    assert drafter.chosen(0) == PLAIN
    assert drafter.importance_of(0) == 0
    assert not drafter.wants_successors


@pytest.mark.parametrize("name", HOST)
def test_after_an_idle_stretch_a_source_drafts_as_if_it_had_always_been_there(name):
    draw = random.Random(name)
    text = [draw.randrange(6) for _ in range(80)]
    idle, view = built(), rows_of(text[:40])
    idle.admit(view)
    idle.choose(0, name)
    idle.plan(view, [6])  # a proposal that nobody judges
    for other in (PLAIN, "lookup" if name != "lookup" else "suffix", PLAIN):
        idle.choose(0, other)
        commit(idle, view, text[len(view.history(0)) :][:11])
    idle.choose(0, name)
    now = view.history(0).tolist()
    fresh, again = built(), rows_of(now)
    fresh.admit(again)
    fresh.choose(0, name)
    mine, right = idle.plan(view, [6]), fresh.plan(again, [6])
    assert mine.tokens.tolist() == right.tokens.tolist()
    assert mine.parents.tolist() == right.parents.tolist()


def test_its_lookup_is_the_drafter_lookup():
    draw = random.Random(5)
    text = [draw.randrange(4) for _ in range(60)]
    auto, plain = built(), LookupDrafter()
    mine, other = rows_of(text[:20]), rows_of(text[:20])
    auto.admit(mine)
    plain.admit(other)
    auto.choose(0, "lookup")
    for token in text[20:]:
        drafts = [drafter.plan(view, [8]) for drafter, view in ((auto, mine), (plain, other))]
        assert drafts[0].tokens.tolist() == drafts[1].tokens.tolist()
        assert drafts[0].confidence.tolist() == pytest.approx(drafts[1].confidence.tolist())
        accepted = int(len(drafts[1].tokens) > 0 and int(drafts[1].tokens[0]) == token)
        for drafter, view in ((auto, mine), (plain, other)):
            view.rows.commit(0, [token], len(view.history(0)))
            drafter.absorb(view, [Outcome(0, min(1, len(drafts[1].tokens)), accepted, [token])])


def test_rows_that_draft_for_themselves_are_planned_apart_and_asked_for_importance():
    drafter, view = built(), rows_of([1, 2, 3], [1, 2, 3])
    drafter.admit(view)
    drafter.choose(0, SELF)
    drafter.choose(1, "racer")
    drafter.plan(view.pick([False, True]), [4])
    assert drafter.at_once(view) == [False, True]
    assert drafter.importance_of(0) > 0
    assert drafter.importance_of(1) == 0
    view.rows.verified_len[:] = 2
    assert drafter.ready(view) == [False, True], "no verified query was seen"
    assert drafter.wants_successors
    drafter.choose(1, "lookup")
    assert not drafter.wants_successors
    drafter.listen(view, 1, "racer")
    assert drafter.wants_successors
    assert [drafter.recycles(slot) for slot in view.slots] == [False, True]
    drafter.ignore(1, "racer")
    assert not drafter.wants_successors


def test_in_a_batch_a_source_is_made_when_it_is_needed_and_reads_all_there_is():
    text = [1, 2, 3, 4, 1, 2]
    alone, pair = built(), built()
    rows = rows_of(text), rows_of(text, text)
    for drafter, view in zip((alone, pair), rows, strict=True):
        drafter.admit(view)
    assert set(alone._rows[0].readers) == set(HOST)
    assert not pair._rows[0].readers
    pair.choose(1, "lookup")
    first = pair.plan(rows[1].pick([False, True]), [2])
    alone.choose(0, "lookup")
    assert first.tokens.tolist() == alone.plan(rows[0], [2]).tokens.tolist() == [3, 4]
    assert set(pair._rows[1].readers) == {"lookup"}


def test_what_a_row_wrote_goes_into_the_store_and_nothing_else_stays():
    store = SuffixStore("agent", 100)
    drafter, view = built(store=store), rows_of([1, 2, 3])
    drafter.admit(view)
    view.rows.commit(0, [7, 8, 9], 3)
    drafter.retire(view)
    assert len(store) == 4, "what was written and the separator"
    assert not drafter._rows
    assert not drafter.sparse._states

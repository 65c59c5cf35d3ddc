"""boundary: sentence ends and 64 steps, rows apart from one another."""

import pytest
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.errors import ArgumentError
from glimpse.pacing.boundary import BoundaryPacer
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import Action, PaceContext

END, WORD = 7, 5


def setup(slots=1, most=4):
    pool = PagePool(CacheShape(1, 1, 4), 64, 16, torch.float32)
    rows = Rows(slots, 256, 64)
    for slot in range(slots):
        rows.open(slot, [WORD] * 10, Sequence(pool, expected=200), 200)
    pacer, view = BoundaryPacer(lambda: [END], most), RowView(rows, tuple(range(slots)))
    pacer.admit(view)
    return pacer, view


def slow(pacer, view, slot, tokens):
    """A step that read everything committed these."""
    pacer.observe(view.rows_of(slot), [Outcome(slot, 0, len(tokens) - 1, tokens)])
    view.rows.commit(slot, tokens, int(view.rows.committed_len[slot]) + len(tokens) - 1)


def actions(pacer, view, room=100):
    return pacer.decide(view, [room] * len(view)).actions


def test_drafts_until_a_sentence_ends():
    pacer, view = setup()
    slow(pacer, view, 0, [WORD])
    for token in (WORD, WORD, END):
        assert actions(pacer, view) == [Action.DRAFT]
        view.rows.add_draft(0, token, 1.0, 0.0)
    assert actions(pacer, view) == [Action.VERIFY]
    assert pacer.trim(view) == [3]


def test_verifies_after_so_many_steps_at_the_latest():
    pacer, view = setup(most=3)
    slow(pacer, view, 0, [WORD])
    for _ in range(3):
        assert actions(pacer, view) == [Action.DRAFT]
        view.rows.add_draft(0, WORD, 1.0, 0.0)
    assert actions(pacer, view) == [Action.VERIFY]


def test_trusted_tokens_count_as_drafted_ones():
    pacer, view = setup(most=2)
    slow(pacer, view, 0, [WORD])
    for _ in range(2):
        assert actions(pacer, view) == [Action.DRAFT]
        view.rows.commit(0, [WORD], int(view.rows.committed_len[0]))
    assert actions(pacer, view) == [Action.VERIFY], "nothing is drafted: the slow step reads the newest token"
    slow(pacer, view, 0, [WORD])
    assert actions(pacer, view) == [Action.DRAFT]
    view.rows.commit(0, [END], int(view.rows.committed_len[0]))
    assert actions(pacer, view) == [Action.VERIFY]
    slow(pacer, view, 0, [END])
    assert actions(pacer, view) == [Action.VERIFY], "the slow step's own token ends a sentence too"


def test_rows_have_phases_of_their_own():
    pacer, view = setup(slots=3)
    for slot, token in enumerate((WORD, END, WORD)):
        slow(pacer, view, slot, [token])
    view.rows.add_draft(2, WORD, 1.0, 0.0)
    assert actions(pacer, view) == [Action.DRAFT, Action.VERIFY, Action.DRAFT]


def test_without_room_it_verifies_what_there_is():
    pacer, view = setup()
    slow(pacer, view, 0, [WORD])
    assert actions(pacer, view, room=0) == [Action.PLAIN]
    view.rows.add_draft(0, WORD, 1.0, 0.0)
    assert actions(pacer, view, room=0) == [Action.VERIFY]


def test_build_and_retire():
    costs = StepCosts(1, 1)
    context = PaceContext(costs, None, False, lambda length: length, ends=lambda: [END])
    pacer = BoundaryPacer.build(context)
    assert pacer.most == 64
    with pytest.raises(ArgumentError, match="pacer 'boundary' stops a draft as it grows"):
        BoundaryPacer.build(PaceContext(costs, None, True, lambda length: length))
    pacer, view = setup()
    pacer.retire(view)
    assert not pacer._slow_at

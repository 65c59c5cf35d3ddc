"""What a batch does next, case by case, for pacers that say what they are told to."""

from __future__ import annotations

import pytest

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.pace import Move, Pace
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action, Decisions

PLAIN, DRAFT, VERIFY = Action.PLAIN, Action.DRAFT, Action.VERIFY
MOST = 4


class Told:
    """Says the next entry of a list, for all rows; keeps what it was shown."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), []

    def decide(self, view, room):
        self.seen.append((view.column(view.rows.draft_len), room))
        return Decisions(self.answers.pop(0), room)


@pytest.fixture
def view():
    """Three rows of 10 tokens that may reach 13, 20 and 30."""
    rows = Rows(3, 40, MOST)
    pool = PagePool(CacheShape(1, 1, 8), 9, 16, rows.draft_entropy.dtype)
    for slot, limit in enumerate((13, 20, 30)):
        rows.open(slot, list(range(10)), Sequence(pool), limit)
    return RowView(rows, (0, 1, 2))


def moves(view, pacer, *, foretells=False, drafts=True, count=None):
    pace = Pace(pacer, MOST, foretells=foretells, drafts=drafts)
    return [pace.next(view) for _ in range(count or len(pacer.answers))]


def test_half_of_the_rows_decide(view):
    pacer = Told([DRAFT, DRAFT, PLAIN], [VERIFY, DRAFT, DRAFT], [VERIFY, VERIFY, DRAFT])
    found = moves(view, pacer)
    assert found == [Move(1, False), Move(1, False), Move(0, True, 2, Learn.ADD)]
    # The target adds a token of its own: row 0 has room for two.
    assert pacer.seen == [([0, 0, 0], [2, 4, 4]), ([1, 1, 1], [1, 3, 3]), ([2, 2, 2], [0, 2, 2])]


def test_known_lengths_make_whole_rounds(view):
    assert moves(view, Told([DRAFT] * 3, [DRAFT] * 3), foretells=True) == [Move(4, True, 4, Learn.ADD)] * 2


def test_rows_at_their_ends_go_on_in_rounds_of_the_same_length(view):
    """The device drafts no further than each row has room."""
    pace = Pace(Told([DRAFT] * 3, [DRAFT] * 3), MOST, foretells=True, drafts=True)
    rounds = [pace.next(view)]
    view.rows.limit[:] = 13
    assert [*rounds, pace.next(view)] == [Move(4, True, 4, Learn.ADD)] * 2


def test_plain_steps_learn_nothing_and_a_fresh_set_precedes_the_next_draft(view):
    plain, draft = [PLAIN] * 3, [DRAFT] * 3
    assert moves(view, Told(plain, plain, draft, draft), foretells=True) == [
        Move(0, True),
        Move(0, True),
        Move(0, True, 0, Learn.ANEW),
        Move(4, True, 4, Learn.ADD),
    ]


def test_an_empty_draft_is_verified_with_importance_where_rows_ask_for_it(view):
    assert moves(view, Told([VERIFY] * 3)) == [Move(0, True, 0, Learn.ADD)]
    assert moves(view, Told([VERIFY] * 3), drafts=False) == [Move(0, True)]


def test_a_plain_step_drops_the_draft(view):
    pace = Pace(Told([DRAFT] * 3, [VERIFY] * 3), MOST, foretells=False, drafts=True)
    assert pace.next(view) == Move(1, False)
    assert pace.next(view, plain=True) == Move(0, True)
    assert pace.next(view) == Move(0, True, 0, Learn.ANEW)

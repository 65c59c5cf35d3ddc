"""What a batch does next, case by case, for pacers that say what they are told to."""

from __future__ import annotations

import pytest

from engine.device.pacers import Told, three_rows
from glimpse.engine.device.pace import Move, Pace
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action

PLAIN, DRAFT, VERIFY = Action.PLAIN, Action.DRAFT, Action.VERIFY
MOST = 4


@pytest.fixture
def view():
    return three_rows(MOST)


def moves(view, pacer, *, drafts=True):
    pace = Pace(pacer, MOST, drafts=drafts)
    return [pace.next(view) for _ in range(len(pacer.answers))]


def test_half_of_the_rows_decide(view):
    pacer = Told([DRAFT, DRAFT, PLAIN], [DRAFT, PLAIN, PLAIN])
    assert moves(view, pacer) == [Move(4, True, 4, Learn.ADD), Move(0, True)]
    # The target adds a token of its own: row 0 has room for two.
    assert pacer.seen == [([0, 0, 0], [2, 4, 4])] * 2


def test_rows_at_their_ends_go_on_in_rounds_of_the_same_length(view):
    """The device drafts no further than each row has room."""
    pace = Pace(Told([DRAFT] * 3, [DRAFT] * 3), MOST, drafts=True)
    rounds = [pace.next(view)]
    view.rows.limit[:] = 13
    assert [*rounds, pace.next(view)] == [Move(4, True, 4, Learn.ADD)] * 2


def test_plain_steps_learn_nothing_and_a_fresh_set_precedes_the_next_draft(view):
    plain, draft = [PLAIN] * 3, [DRAFT] * 3
    assert moves(view, Told(plain, plain, draft, draft)) == [
        Move(0, True),
        Move(0, True),
        Move(0, True, 0, Learn.ANEW),
        Move(4, True, 4, Learn.ADD),
    ]


def test_an_empty_draft_is_verified_with_importance_where_rows_ask_for_it(view):
    assert moves(view, Told([VERIFY] * 3)) == [Move(0, True, 0, Learn.ADD)]
    assert moves(view, Told([VERIFY] * 3), drafts=False) == [Move(0, True)]


def test_a_plain_step_asks_nobody(view):
    pace = Pace(Told([DRAFT] * 3), MOST, drafts=True)
    assert pace.next(view, plain=True) == Move(0, True)
    assert pace.next(view) == Move(0, True, 0, Learn.ANEW)

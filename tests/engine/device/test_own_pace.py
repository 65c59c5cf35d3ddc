"""What each row does next, case by case, for pacers that say what they are told to."""

from __future__ import annotations

import pytest

from engine.device.pacers import Told, three_rows
from glimpse.attention.triton.mixed import Want
from glimpse.cache.rows import RowView
from glimpse.engine.device.own_pace import Mixture, OwnPace
from glimpse.engine.device.pace import Move
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action

PLAIN, DRAFT, VERIFY = Action.PLAIN, Action.DRAFT, Action.VERIFY
MOST = 4


@pytest.fixture
def view():
    return three_rows(MOST)


def steps(view, pacer):
    pace = OwnPace(pacer, MOST)
    return [pace.next(view) for _ in range(len(pacer.answers))]


def test_every_row_does_what_it_is_told(view):
    pacer = Told([DRAFT, DRAFT, PLAIN], [VERIFY, DRAFT, VERIFY], [PLAIN, PLAIN, DRAFT])
    assert steps(view, pacer) == [
        Mixture((Want.DRAFT, Want.DRAFT, Want.PLAIN), (0, 0, 0)),
        Mixture((Want.ADD, Want.DRAFT, Want.ANEW), (1, 1, 0)),  # row 2 has stepped plainly
        Mixture((Want.PLAIN, Want.ADD, Want.DRAFT), (0, 2, 0)),  # a plain step would lose the draft of row 1
    ]
    # The target adds a token of its own: row 0 has room for two.
    assert pacer.seen == [([0, 0, 0], [2, 4, 4]), ([1, 1, 0], [1, 3, 4]), ([0, 2, 0], [2, 2, 4])]


def test_rows_that_want_the_same_make_a_step_of_one_kind(view):
    every = Told([DRAFT] * 3, [VERIFY] * 3, [PLAIN] * 3)
    assert steps(view, every) == [Move(1, False), Move(0, True, 1, Learn.ADD), Move(0, True)]


def test_drafts_of_different_lengths_are_verified_each_at_its_own(view):
    pacer = Told([DRAFT, PLAIN, DRAFT], [VERIFY] * 3)
    assert steps(view, pacer)[1] == Mixture((Want.ADD, Want.ANEW, Want.ADD), (1, 0, 1))


def test_a_row_without_room_verifies(view):
    found = steps(view, Told([DRAFT] * 3, [DRAFT] * 3, [DRAFT] * 3))
    assert found == [Move(1, False), Move(1, False), Mixture((Want.ADD, Want.DRAFT, Want.DRAFT), (2, 2, 2))]


def test_a_fresh_set_precedes_the_first_draft_after_plain_steps(view):
    found = steps(view, Told([PLAIN, DRAFT, DRAFT], [DRAFT] * 3, [DRAFT] * 3))
    assert [step.wants[0] if isinstance(step, Mixture) else step for step in found] == [
        Want.PLAIN,
        Want.ANEW,
        Move(1, False),
    ]


def test_a_burst_after_plain_steps_is_drafted_though_sets_are_chosen_first(view):
    """The pacer was asked once: `fleet` took a trial for made that never drafted, and never saw that drafts pay."""
    burst = [DRAFT] * 3
    pacer = Told([PLAIN, PLAIN, PLAIN], burst, [PLAIN] * 3, bursts=(0, 2, 0))
    pace = OwnPace(pacer, MOST)
    assert [pace.next(view) for _ in range(4)] == [
        Move(0, True),
        Move(0, True, 0, Learn.ANEW),
        Move(2, True, 2, Learn.ADD),
        Move(0, True),
    ]
    assert len(pacer.seen) == 3


def test_a_burst_is_asked_for_anew_where_other_rows_have_come(view):
    pacer = Told([PLAIN] * 3, [DRAFT] * 3, [PLAIN] * 2, bursts=(0, 2, 0))
    pace = OwnPace(pacer, MOST)
    assert [pace.next(view), pace.next(view)] == [Move(0, True), Move(0, True, 0, Learn.ANEW)]
    assert pace.next(RowView(view.rows, view.slots[:2])) == Move(0, True)


def test_a_plain_step_drops_the_drafts(view):
    pace = OwnPace(Told([DRAFT] * 3, [VERIFY] * 3), MOST)
    assert pace.next(view) == Move(1, False)
    assert pace.next(view, plain=True) == Move(0, True)
    assert pace.next(view) == Move(0, True, 0, Learn.ANEW)


def test_a_row_that_has_left_is_forgotten(view):
    pace = OwnPace(Told([DRAFT, DRAFT, DRAFT], [VERIFY] * 3), MOST)
    pace.next(view)
    pace.leave(1)
    assert pace.next(view) == Mixture((Want.ADD,) * 3, (1, 0, 1))


def test_plain_steps_that_were_foretold_are_not_asked_for(view):
    pacer = Told([PLAIN] * 3, [DRAFT] * 3, [DRAFT] * 3, holds=2)
    pace = OwnPace(pacer, MOST)
    assert [pace.next(view) for _ in range(5)] == [
        Move(0, True), Move(0, True), Move(0, True), Move(0, True, 0, Learn.ANEW), Move(1, False),
    ]  # fmt: skip
    assert not pacer.answers


def test_a_burst_is_one_move_and_rows_without_room_stand_still(view):
    """Row 0 has room for two: the device stops it there, and nothing is mixed."""
    pace = OwnPace(Told([DRAFT] * 3, [VERIFY, DRAFT, DRAFT], burst=3, closes=True), MOST)
    assert pace.next(view) == Move(3, True, 3, Learn.ADD)
    assert pace.next(view) == Move(3, True, 3, Learn.ADD)


def test_a_burst_that_does_not_close_goes_on_from_what_is_pending(view):
    pacer = Told([DRAFT] * 3, [DRAFT] * 3, burst=2)
    pace = OwnPace(pacer, MOST)
    assert [pace.next(view) for _ in range(2)] == [Move(2, False), Move(2, False)]
    assert pacer.seen[1][0] == [2, 2, 2]


def test_a_fresh_set_precedes_a_burst(view):
    pace = OwnPace(Told([DRAFT] * 3, [DRAFT] * 3, burst=2, closes=True), MOST)
    assert pace.next(view, plain=True) == Move(0, True)
    assert pace.next(view) == Move(0, True, 0, Learn.ANEW)
    assert pace.next(view) == Move(2, True, 2, Learn.ADD)


def test_what_was_foretold_does_not_hold_for_other_rows_or_for_drafts(view):
    pacer = Told([PLAIN] * 3, [PLAIN] * 2, [PLAIN, DRAFT], [VERIFY, DRAFT], holds=2)
    pace = OwnPace(pacer, MOST)
    assert pace.next(view) == Move(0, True)
    fewer = view.pick([True, True, False])
    pace.next(fewer)
    assert len(pacer.answers) == 2  # asked: a row has gone
    for _ in range(4):
        pace.next(fewer)
    assert not pacer.answers

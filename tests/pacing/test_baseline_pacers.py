"""The pacers `synchronised` and `feedback`, which others are compared with."""

from __future__ import annotations

import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.feedback import FeedbackPacer
from glimpse.pacing.pacer import Action, PaceContext
from glimpse.pacing.synchronised import SynchronisedPacer


def view(*drafted: int) -> RowView:
    rows = Rows(len(drafted), 64, 16)
    rows.draft_len[:] = torch.tensor(drafted)
    return RowView(rows, tuple(range(len(drafted))))


def test_all_rows_verify_with_the_first_that_is_done():
    made = SynchronisedPacer(5)
    assert made.decide(view(4, 4, 2), [9, 9, 9]).actions == [Action.DRAFT] * 3
    assert made.decide(view(5, 5, 3), [9, 9, 9]).actions == [Action.VERIFY] * 3
    assert made.decide(view(5, 0), [9, 9]).actions == [Action.VERIFY] * 2


def test_a_row_without_room_waits_for_nobody():
    decisions = SynchronisedPacer(5).decide(view(2, 2, 0), [9, 0, 0])
    assert decisions.actions == [Action.DRAFT, Action.VERIFY, Action.PLAIN]


@pytest.mark.parametrize(("asked", "most"), [(None, 5), (0, 0), (3, 3)])
def test_the_length_asked_for(asked, most):
    context = PaceContext(StepCosts(1, 1), asked, False, lambda length: length)
    assert SynchronisedPacer.build(context).most == most


def feedback(*lengths: int, most: int = 16) -> tuple[FeedbackPacer, RowView]:
    made, rows = FeedbackPacer(most), view(*[0] * len(lengths))
    made.admit(rows)
    made._lengths.update(enumerate(lengths))
    return made, rows


def test_feedback_steps_up_and_down_row_by_row():
    made, rows = feedback(5, 5, 1, 16, 7)
    outcomes = [Outcome(0, 5, 5, [1]), Outcome(1, 5, 4, [1]), Outcome(2, 1, 0, [1]), Outcome(3, 16, 16, [1])]
    made.observe(rows, [*outcomes, Outcome(4, 0, 0, [1])])
    assert made._lengths == {0: 6, 1: 4, 2: 1, 3: 16, 4: 7}


def test_feedback_drafts_to_its_length():
    made, _ = feedback(3, 3, 3)
    decisions = made.decide(view(0, 2, 3), [9, 9, 9])
    assert decisions.actions == [Action.DRAFT, Action.DRAFT, Action.VERIFY]
    assert decisions.room == [3, 1, 0]


def test_feedback_without_drafts():
    context = PaceContext(StepCosts(1, 1), None, False, lambda length: length, can_draft=False)
    made, rows = FeedbackPacer.build(context), view(0)
    made.admit(rows)
    assert made.decide(rows, [9]).actions == [Action.PLAIN]
    made.retire(rows)
    assert not made._lengths

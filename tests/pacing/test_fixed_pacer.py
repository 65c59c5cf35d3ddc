"""The pacer `fixed`, and names of pacers."""

from __future__ import annotations

import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.errors import ArgumentError
from glimpse.pacing import PACERS
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.fixed import FixedPacer
from glimpse.pacing.pacer import Action, PaceContext


def context(draft_tokens: int | None, *, can_draft: bool = True) -> PaceContext:
    return PaceContext(StepCosts(1, 1), draft_tokens, False, lambda length: length, can_draft)


def view(*drafted: int) -> RowView:
    rows = Rows(len(drafted), 64, 16)
    rows.draft_len[:] = torch.tensor(drafted)
    return RowView(rows, tuple(range(len(drafted))))


def test_it_drafts_to_its_length_then_verifies():
    decisions = FixedPacer(4).decide(view(0, 3, 4, 2, 0), [9, 9, 9, 0, 0])
    assert decisions.actions == [Action.DRAFT, Action.DRAFT, Action.VERIFY, Action.VERIFY, Action.PLAIN]
    assert decisions.room == [4, 1, 0, 0, 0]


def test_room_limits_it():
    assert FixedPacer(8).decide(view(0, 6), [3, 1]).room == [3, 1]


@pytest.mark.parametrize(("asked", "most"), [(None, 8), (0, 0), (1, 1), (16, 16)])
def test_the_length_asked_for(asked, most):
    assert FixedPacer.build(context(asked)).most == most
    assert FixedPacer.build(context(asked, can_draft=False)).most == 0


def test_it_trims_nothing():
    assert FixedPacer(4).trim(view(0, 3, 4)) == [0, 3, 4]


def test_names():
    assert PACERS.get("fixed") is FixedPacer
    with pytest.raises(ArgumentError, match="entropy, feedback, fixed, fleet, libraspec, marginal, synchronised"):
        PACERS.get("slow")

"""The pacer of `auto` on a GPU: priced trees, a batch that may draft for itself, and what it says of its choices."""

from __future__ import annotations

import pytest
from tests.drafting.histories import POOL, rows_of

from glimpse.cache.recall import RecallBudget
from glimpse.drafting.auto import AutoDrafter
from glimpse.drafting.auto_graphs import auto_on_graphs
from glimpse.drafting.drafter import DraftContext
from glimpse.drafting.lookup import LookupDrafter
from glimpse.errors import ArgumentError
from glimpse.pacing.auto import AutoPacer
from glimpse.pacing.auto_graphs import AutoGraphsPacer
from glimpse.pacing.costs import ON_GPU, StepCosts
from glimpse.pacing.pacer import Action, PaceContext


def context(**more) -> PaceContext:
    return PaceContext(StepCosts(10**9, 10**4, shares=ON_GPU), None, True, lambda length: length, **more)


@pytest.fixture
def paced():
    pacer = AutoPacer.build(context(on_gpu=True, trees=True))
    drafter = auto_on_graphs(DraftContext(POOL, RecallBudget(), nodes=pacer.most))
    pacer.attach(drafter)
    return pacer


def test_a_gpu_has_a_pacer_of_its_own():
    assert isinstance(AutoPacer.build(context(on_gpu=True)), AutoGraphsPacer)
    assert isinstance(AutoPacer.build(context()), AutoPacer)


def test_rows_draft_and_each_is_told_once_what_was_chosen_and_why(paced):
    view = rows_of([1, 2, 3], [4, 5, 6])
    paced.admit(view)
    first = paced.decide(view, [8, 8])
    assert first.actions == [Action.DRAFT] * 2
    assert [first.choices[slot].drafter for slot in view.slots] == ["racer"] * 2
    assert set(first.choices[0].expected) == {"none", "racer", "sparse"}
    assert "for all rows" in first.choices[0].note
    assert not paced.decide(view, [8, 8]).choices
    paced.retire(view.pick([True, False]))
    paced.admit(view.pick([True, False]))
    assert list(paced.decide(view, [8, 8]).choices) == [0]


def test_nothing_is_kept_of_rows_that_have_left(paced):
    view = rows_of([1, 2, 3], [4, 5, 6])
    paced.admit(view)
    paced.decide(view, [8, 8])
    paced.retire(view)
    assert not paced._states
    assert not paced.in_step._told
    assert not paced.in_step.fleet._chances._rows


def test_each_pacer_goes_with_its_own_drafter():
    for drafter in (LookupDrafter(), AutoDrafter.build(DraftContext(POOL, RecallBudget()))):
        with pytest.raises(ArgumentError, match="pacer 'auto'"):
            AutoGraphsPacer(context(on_gpu=True)).attach(drafter)

"""Which mask groups ride: the paper's two ways, and the one that is priced."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.riding import GroupPricer, endings

SURE = np.array([0.9, 0.8, 0.5])


def costs(mask: float, first: float = 0.0) -> StepCosts:
    """Steps of a second, whose mask tokens add `mask` each, and the first of them `first` more."""
    found = StepCosts(1, 1, start=(1.0, 1e-6, mask, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, first))
    assert found.marginal(draft_tokens=1) == pytest.approx(mask)
    return found


def test_endings_are_a_law():
    assert endings(SURE) == pytest.approx([0.1, 0.18, 0.36, 0.36])
    assert endings(np.array([])) == pytest.approx([1.0])


@pytest.mark.parametrize(("mode", "wanted"), [("parallel", [(0, 1, 2, 3), (0,)]), ("sequential", [(), (0,)])])
def test_the_papers_ways(mode, wanted):
    assert GroupPricer(costs(0.1), mode).wanted([SURE, np.array([])], [100, 100], 8) == wanted


def test_masks_that_cost_nothing_all_ride():
    assert GroupPricer(costs(1e-9)).wanted([SURE], [100], 8) == [(0, 1, 2, 3)]


def test_dear_masks_ride_only_where_nothing_is_drafted():
    assert GroupPricer(costs(1.0)).wanted([SURE, np.array([])], [100, 100], 8) == [(), (0,)]


def test_only_likely_endings_are_worth_a_group():
    """One block is worth 2 tokens of 1 / (1 + .9 + .72 + .36) seconds, 0.67; a group of 8 costs 0.2."""
    assert GroupPricer(costs(0.025)).wanted([SURE], [100], 8) == [(2, 3)]


def test_the_first_mask_of_a_step_has_a_price_of_its_own():
    """All four groups gain 0.67 of a second; beside a row that makes a block anyway only the masks are paid."""
    assert GroupPricer(costs(1e-9, first=0.6)).wanted([SURE], [100], 8) == [(0, 1, 2, 3)]
    assert GroupPricer(costs(1e-9, first=0.7)).wanted([SURE], [100], 8) == [()]
    both = GroupPricer(costs(1e-9, first=0.7)).wanted([SURE, np.array([])], [100, 100], 8)
    assert both == [(0, 1, 2, 3), (0,)]


def test_blocks_that_come_true_are_worth_more():
    pricer = GroupPricer(costs(0.025))
    for _ in range(50):
        pricer.observe(8)
    assert pricer.wanted([SURE], [100], 8) == [(0, 1, 2, 3)]
    for _ in range(100):
        pricer.observe(0)
    assert pricer.wanted([SURE], [100], 8) == [()]


def test_a_full_batch_shares_its_step():
    """Each row's share of the step is small, and so is what a token is worth."""
    pricer = GroupPricer(costs(0.005))
    assert len(pricer.wanted([SURE], [100], 8)[0]) == 4
    assert pricer.wanted([SURE] * 40, [100] * 40, 8) == [()] * 40


def test_measured_steps_change_the_choice():
    own = costs(1.0)
    for _ in range(9):
        for masks, seconds in ((0, 1.0), (8, 1.01), (16, 1.02)):
            load = StepLoad(full_tokens=4, full_kv=100, pairs=400, draft_tokens=masks, riding=int(masks > 0))
            own.observe(load, seconds)
    assert GroupPricer(own).wanted([SURE], [100], 8)[0] != ()

"""Which way blocks are drafted: by what steps cost and blocks bring, with hysteresis."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.pacing.block_ways import BETTER, BlockWay, BlockWays, bare_load, masked_load
from glimpse.pacing.costs import StepCosts, StepLoad

SIZE, TINY = 4, 1e-9


def costs(token=TINY, mask=TINY, first=TINY):
    """Steps of a second, whose tokens and masks add so much."""
    return StepCosts(1, 1, start=(1.0, token, mask, TINY, TINY, TINY, TINY, TINY, first))


def ways(mode="auto", most=8, **prices):
    return BlockWays(costs(**prices), SIZE, SIZE, most, lambda drafted: drafted + 1, mode)


def sure(found, reach, slots=(0,)):
    for slot in slots:
        for _ in range(200):
            found.heard(slot, np.array(reach))
    return found


def test_tokens_of_a_way_by_hand():
    """Accepted 0.8 + 0.4 of two; a row ends behind no draft with 0.2, behind at most one with 0.6."""
    found = sure(ways(), [0.8, 0.4, 0.2, 0.1])
    rate = {way: found.rate(way, (0,), [100]) for way in (BlockWay(2, 3), BlockWay(2, 1), BlockWay(2, 0))}
    assert rate[BlockWay(2, 3)] == pytest.approx(1 + 1.2, rel=1e-3)
    assert rate[BlockWay(2, 1)] == pytest.approx(1 + 1.2 / (2 - 0.2), rel=1e-3)
    assert rate[BlockWay(2, 0)] == pytest.approx((2 + 1.2) / 2, rel=1e-3)
    assert found.plain_rate([100]) == pytest.approx(1, rel=1e-3)


def test_a_missing_group_costs_a_draft_once_in_the_long_run():
    """The formula, against steps drawn one by one."""
    draw, right, length, groups = np.random.default_rng(1), np.array([0.8, 0.6, 0.5, 0.3]), 4, 2
    tokens, drafted, steps = 0, False, 40_000
    for _ in range(steps):
        accepted = int(np.cumprod(draw.random(length) < right).sum()) if drafted else 0
        tokens, drafted = tokens + 1 + accepted, accepted < groups
    found = sure(ways(), np.cumprod(right))
    assert found.rate(BlockWay(length, groups), (0,), [10]) == pytest.approx(tokens / steps, rel=0.01)


def test_masks_that_cost_nothing_ride_everywhere_and_dear_ones_in_steps_of_their_own():
    reach = [0.9, 0.8, 0.7, 0.6]
    assert sure(ways(), reach).choose((0,), [100]) == BlockWay(SIZE, SIZE + 1)
    assert sure(ways(mask=0.2), reach).choose((0,), [100]) == BlockWay(SIZE, 0)


def test_no_more_is_verified_than_is_worth_it():
    assert sure(ways(token=0.2), [0.9, 0.05, 0.0, 0.0]).choose((0,), [100]).length == 1


@pytest.mark.parametrize(("mode", "way"), [("parallel", BlockWay(SIZE, SIZE + 1)), ("sequential", BlockWay(SIZE, 0))])
def test_the_papers_ways_are_what_they_are(mode, way):
    for prices in ({}, {"mask": 5.0}, {"token": 5.0}):
        assert ways(mode, **prices).choose((0,), [100]) == way


def test_a_row_has_bits_for_so_many_groups():
    assert ways("parallel", most=2).choose((0,), [100]) == BlockWay(SIZE, 2)


def test_what_steps_were_seen_to_take_counts_and_little_changes_nothing():
    prices = costs()
    found = BlockWays(prices, SIZE, SIZE, 8, lambda drafted: drafted + 1)
    sure(found, [0.9, 0.8, 0.7, 0.6])
    taken = found.choose((0,), [100])
    seen = masked_load([100], 5, 5, 20)
    for _ in range(9):
        prices.observe(seen, 1.0)
        prices.observe(bare_load([100], 1), 1.0)
    other = max(found.rate(way, (0,), [100]) for way in found._ways if way != taken)
    edge = found.rate(taken, (0,), [100]) / other
    assert edge > 1
    for factor, stays in ((0.99 * edge * BETTER, True), (1.5 * edge * BETTER, False)):
        for _ in range(9):
            prices.observe(seen, factor)
        assert (found.choose((0,), [100]) == taken) is stays


def test_a_row_that_left_is_forgotten():
    found = sure(ways(), [1.0, 1.0, 1.0, 1.0], (0, 1))
    found.leave(0)
    assert list(found._reach) == [1]


def test_loads_count_what_a_step_holds():
    assert bare_load([10, 20], 3) == StepLoad(full_tokens=6, full_kv=34, pairs=90)
    assert masked_load([10, 20], 3, 2, 8) == bare_load([10, 20], 3) + StepLoad(draft_tokens=16, draft_kv=60, riding=1)


def test_hope_does_not_depend_on_blocks_seen():
    """Two of four tokens, by the guess 1.6: nobody who drafts nothing can see that blocks became better."""
    found = ways()
    hope = found.hope([100])
    assert hope == pytest.approx(1 + sum((2 / 3) ** place for place in range(1, 5)), rel=1e-3)
    assert sure(found, [0.0, 0.0, 0.0, 0.0]).hope([100]) == hope
    assert ways(mask=10.0).hope([100]) < 1

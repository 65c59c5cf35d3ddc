"""What rounds of a batch are thought to take, where steps cost no straight line."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.cache.rows import Rows, RowView
from glimpse.pacing.costs import ON_GPU, StepCosts, StepLoad
from glimpse.pacing.rounds import RoundPrices

ROWS, LENGTH = 64, 8000
DRAFT = 0.871e-3
MEASURED = {0: 3.497e-3, 2: 4.707e-3, 4: 4.763e-3, 6: 5.009e-3}
"""Seconds of steps of 64 rows of the demo model on an H200, by drafts verified: any verification is much dearer than a
plain step, and the first tokens of one are nearly free."""


def surface(measured: dict[int, float]) -> StepCosts:
    made = StepCosts(270_000_000, 23_040, bandwidth=4e12, shares=ON_GPU)
    for _ in range(9):
        made.observe(StepLoad(draft_tokens=ROWS, draft_kv=512 * ROWS), DRAFT)
        for drafts, seconds in measured.items():
            count = 1 + drafts
            kv, pairs = ROWS * (LENGTH + count), ROWS * LENGTH * count
            load = StepLoad(full_tokens=ROWS * count, full_kv=kv, pairs=pairs, rounds=ROWS * bool(drafts))
            made.observe(load, seconds)
    return made


def rounds(costs: StepCosts) -> np.ndarray:
    """[9]: seconds of rounds of 0 to 8 drafts of all rows in step."""
    rows = Rows(ROWS, 8192, 16)
    rows.committed_len[:] = LENGTH
    found = RoundPrices(costs, lambda length: 512).yields(RowView(rows, tuple(range(ROWS))), np.full((ROWS, 8), 0.9))
    return np.asarray(np.arange(1, 10) * found.step + found.seconds.sum(0))


def test_rounds_that_ran_are_priced_as_they_ran():
    found = rounds(surface(MEASURED))
    for drafts, seconds in MEASURED.items():
        assert found[drafts] == pytest.approx(drafts * DRAFT + seconds, rel=0.015), drafts


def test_lengths_between_and_beyond_them_go_by_their_neighbours():
    found, fewer = rounds(surface(MEASURED)), rounds(surface({0: MEASURED[0], 4: MEASURED[4]}))
    verified = found - DRAFT * np.arange(9)
    assert MEASURED[4] * 0.99 < verified[5] < MEASURED[6] * 1.01
    assert verified[8] > verified[6]
    assert (np.diff(fewer[1:]) > 0).all()
    assert fewer[4] == pytest.approx(4 * DRAFT + MEASURED[4], rel=0.015)


def test_where_none_ran_the_line_holds():
    assert np.diff(rounds(surface({}))[1:], 2) == pytest.approx(0.0, abs=1e-12)

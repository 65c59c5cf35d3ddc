"""Grids and strides: with all choices enumerated, the best is found; mixed steps pull rows together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from glimpse.pacing.rounds import tokens_of
from glimpse.pacing.strides import BETTER, FAIR, GRIDS, WORTH, Schedule, Yields

MOST = 8


def yields(chances, *, step=1.0, mixed=0.0, draft=0.05, verify=1.5, token=0.05) -> Yields:
    """Rows of one chance each, the same at all depths."""
    drafts = np.arange(MOST + 1)
    tokens = tokens_of(np.repeat(np.array(chances)[:, None], MOST, 1))
    own = draft * drafts + verify + token * drafts
    return Yields(tokens, np.tile(own, (len(chances), 1)), step, mixed)


def every(of: Yields):
    """All schedules, and of each the rate by its definition, one step of the grid after the other."""
    for grid in (grid for grid in GRIDS if grid <= MOST + 1):
        for strides in itertools.product(range(1, (MOST + 1) // grid + 1), repeat=len(of.tokens)):
            beats = int(np.lcm.reduce(strides))
            seconds = tokens = 0.0
            for beat in range(1, beats + 1):
                seconds += grid * of.step
                turns = [row for row, stride in enumerate(strides) if beat % stride == 0]
                for row in turns:
                    drafts = strides[row] * grid - 1
                    seconds += of.seconds[row, drafts]
                    tokens += of.tokens[row, drafts]
            seconds += beats * of.mixed * (min(strides) < max(strides))
            yield grid, strides, tokens / seconds


@pytest.mark.parametrize("mixed", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("chances", [(0.9, 0.9, 0.9), (0.97, 0.6, 0.6), (0.95, 0.8, 0.3)])
def test_the_best_of_all_is_found(chances, mixed):
    """To the hysteresis, and but for schedules that make a row much slower than plain decoding."""
    of = yields(chances, mixed=mixed)
    found = Schedule.best(of)
    best = max(rate for _, strides, rate in every(of) if min(strides) == 1)
    assert found.rate(of) >= best / BETTER / 1.001
    same = [rate for grid, strides, rate in every(of) if (grid, strides) == (found.grid, tuple(found.strides))]
    assert found.rate(of) == pytest.approx(same[0])


def test_unlike_rows_part_where_mixed_steps_are_cheap_and_only_there():
    unlike = (0.95, 0.95, 0.6, 0.6)
    assert Schedule.best(yields(unlike)).strides.tolist() == [3, 3, 1, 1]
    together = Schedule.best(yields(unlike, mixed=0.5))
    assert together.strides.tolist() == [1, 1, 1, 1]
    assert together.grid > 1


def test_nothing_accepted_is_plain_decoding():
    assert Schedule.best(yields((0.02, 0.02))).grid == 1


def test_what_holds_is_kept_unless_another_is_clearly_better():
    of = yields((0.9, 0.9))
    best = Schedule.best(of)
    near = Schedule(GRIDS[GRIDS.index(best.grid) - 1], best.strides)
    assert Schedule.best(of, near).grid == (near.grid if near.rate(of) * BETTER >= best.rate(of) else best.grid)
    assert Schedule.best(of, best) is best
    assert Schedule.best(of, Schedule(1, best.strides)).grid == best.grid


def test_drafting_begins_only_where_it_is_clearly_better_than_plain_decoding():
    """And goes on while it is better at all."""
    near = [yields((0.9, 0.9), draft=0.0, verify=verify) for verify in np.linspace(0.0, 6.0, 600)]
    alike = [Schedule(grid, np.ones(2, dtype=int)) for grid in GRIDS if grid <= MOST + 1]
    gains = [max(one.rate(of) for one in alike[1:]) / alike[0].rate(of) for of in near]
    of = near[next(at for at, gain in enumerate(gains) if BETTER < gain < WORTH)]
    assert Schedule.best(of).grid == 1
    held = max(alike[1:], key=lambda one: one.rate(of))
    assert Schedule.best(of, held) is held
    worse = near[next(at for at, gain in enumerate(gains) if gain < 1)]
    assert Schedule.best(worse, held).grid == 1


def test_no_row_is_made_much_slower_than_plain_decoding():
    """A verification that costs more than the row's token is worth to the batch is made all the same."""
    of = yields((0.98, 0.98, 0.98, 0.01), verify=4.0, step=1.0)
    found = Schedule.best(of)
    row = of.tokens[3, found.strides[3] * found.grid - 1] / found.strides[3]
    beat = found.grid * of.step + (of.seconds[range(4), found.strides * found.grid - 1] / found.strides).sum()
    assert row / beat >= FAIR / (of.step + of.seconds[:, 0].sum()) or found.strides[3] == 1

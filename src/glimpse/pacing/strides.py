"""When the rows of a batch verify: together, every so many steps, or some of them every second or third time only.

A step in which some rows draft and others verify costs more than its rows' parts of two steps of one kind: it launches
both, and on a GPU that is most of what a small model's step costs (docs/pacing.md, "What a mixed step costs"). So
verifications are pulled together, on a grid of `grid` steps, and a row whose drafts are accepted for longer takes
part in every second or third of them (its stride). The problem is known as joint replenishment: a large cost for
any order, a small one for each item of it; a common grid with whole multiples of it is its classical answer. What is
maximised is a ratio, expected tokens over seconds, by Dinkelbach's method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GRIDS = (1, 2, 3, 5, 7, 9, 13, 17)
"""Steps from one verification of the batch to the next; a GPU keeps graphs for drafts of these lengths."""
BETTER = 1.01
"""By how much another grid or other strides must be better than those that hold."""
WORTH = 1.05
"""By how much drafting must be better than plain decoding to begin: predictions are no better than that, and going to
and fro costs steps of its own. A guess; what it gains or loses on a GPU has not been measured."""
FAIR = 0.9
"""The least speed of a row over plain decoding that another row's gain may cost it."""
ROUNDS = 3
"""Dinkelbach's steps at most; the second one rarely changes anything."""


@dataclass(frozen=True, slots=True)
class Yields:
    """What rounds of 0, 1, ..., K drafts of each row yield and cost."""

    tokens: np.ndarray
    """[R, K + 1]: expected tokens."""
    seconds: np.ndarray
    """[R, K + 1]: what the round adds to the steps that it shares."""
    step: float
    """Seconds of a step, whatever it carries."""
    mixed: float
    """Seconds that a step takes longer in which some rows draft and others do not."""

    def rate(self, grid: int, strides: np.ndarray) -> float:
        """Expected tokens per second of the batch; `strides` [R] int."""
        tokens, seconds = self._of(grid, strides)
        return float(tokens / seconds)

    def _of(self, grid: int, strides: np.ndarray) -> tuple[float, float]:
        """Tokens and seconds from one point of the grid to the next."""
        rows, drafts = np.arange(len(strides)), strides * grid - 1
        own = (self.seconds[rows, drafts] / strides).sum()
        mixed = self.mixed * (strides.min() < strides.max())
        return (self.tokens[rows, drafts] / strides).sum(), grid * self.step + own + mixed

    def strided(self, grid: int, rate: float) -> np.ndarray:
        """[R]: each row's best stride where a second is worth `rate` tokens.

        No row is made much slower than plain decoding: one whose drafts fail would verify seldom, for the others' good.
        """
        strides = np.arange(1, self.tokens.shape[1] // grid + 1)
        drafts = strides * grid - 1
        worth = (self.tokens[:, drafts] - rate * self.seconds[:, drafts]) / strides
        plain = self.step + self.seconds[:, 0].sum()
        beat = grid * self.step + self.seconds[:, grid - 1].sum()
        fair = self.tokens[:, drafts] / strides >= FAIR * beat / plain
        fair[:, 0] = True
        best = strides[np.where(fair, worth, -np.inf).argmax(1)]
        # If no row takes part every time, the grid is another one, which is looked at too.
        return np.asarray(best if best.min() == 1 else np.ones_like(best))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The grid and each row's stride on it."""

    grid: int
    strides: np.ndarray
    """[R] int."""

    @classmethod
    def best(cls, yields: Yields, held: Schedule | None = None) -> Schedule:
        """The one of the highest rate; `held`, of the same rows, is given up only for one that is clearly better, and
        drafts are begun only where they are so."""
        most = yields.tokens.shape[1]
        together = np.ones(len(yields.tokens), dtype=np.int64)
        found = max((cls(grid, together) for grid in GRIDS if grid <= most), key=lambda one: one.rate(yields))
        for grid in GRIDS:
            if 2 * grid <= most:
                other = cls._strided(yields, grid, found.rate(yields))
                found = other if other.rate(yields) > BETTER * found.rate(yields) else found
        plain = cls(1, together)
        drafting, needed = bool(held and held.drafts), plain.rate(yields)
        if held and drafting and held.rate(yields) >= max(found.rate(yields) / BETTER, BETTER * needed):
            return held
        return found if found.rate(yields) > (BETTER if drafting else WORTH) * needed else plain

    @classmethod
    def _strided(cls, yields: Yields, grid: int, rate: float) -> Schedule:
        schedule = cls(grid, yields.strided(grid, rate))
        for _ in range(ROUNDS):
            better = cls(grid, yields.strided(grid, max(rate, schedule.rate(yields))))
            if better.rate(yields) <= schedule.rate(yields):
                break
            schedule = better
        return schedule

    @property
    def drafts(self) -> bool:
        """Whether any row drafts."""
        return self.grid * int(self.strides.max()) > 1

    def rate(self, yields: Yields) -> float:
        """Expected tokens per second."""
        return yields.rate(self.grid, self.strides)

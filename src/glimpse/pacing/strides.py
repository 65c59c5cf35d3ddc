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
        rows, drafts = np.arange(len(strides)), strides * grid - 1
        own = (self.seconds[rows, drafts] / strides).sum()
        mixed = self.mixed * (strides.min() < strides.max())
        return float((self.tokens[rows, drafts] / strides).sum() / (grid * self.step + own + mixed))

    def in_step(self, grids: np.ndarray) -> np.ndarray:
        """[G]: the same for grids [G], where all rows verify every time."""
        return np.asarray(self.tokens.sum(0)[grids - 1] / (grids * self.step + self.seconds.sum(0)[grids - 1]))

    def parted(self, grid: int, rate: float) -> np.ndarray | None:
        """[R]: the strides on a grid that beat a rate by most, each row's own best where a second is worth `rate`
        tokens; None where no strides beat it.

        No row is made much slower than plain decoding: one whose drafts fail would verify seldom, for the others' good.
        """
        strides = np.arange(1, self.tokens.shape[1] // grid + 1)
        drafts = strides * grid - 1
        worth = (self.tokens[:, drafts] - rate * self.seconds[:, drafts]) / strides
        if worth.max(1).sum() <= rate * (grid * self.step + self.mixed):
            return None
        plain = self.step + self.seconds[:, 0].sum()
        beat = grid * self.step + self.seconds[:, grid - 1].sum()
        fair = self.tokens[:, drafts] / strides >= FAIR * beat / plain
        fair[:, 0] = True
        found = strides[np.where(fair, worth, -np.inf).argmax(1)]
        # If no row takes part every time, the grid is another one, which is looked at too.
        return np.asarray(found) if found.min() == 1 and self.rate(grid, found) > rate else None


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
        most, rows = yields.tokens.shape[1], len(yields.tokens)
        together, grids = np.ones(rows, dtype=np.int64), np.array([grid for grid in GRIDS if grid <= most])
        rates = yields.in_step(grids)
        found, rate, plain = cls(int(grids[rates.argmax()]), together), float(rates.max()), float(rates[0])
        for grid in (grid for grid in GRIDS if 2 * grid <= most and rows > 1):
            if other := cls._parted(yields, grid, BETTER * rate):
                found, rate = other, other.rate(yields)
        drafting = bool(held and held.drafts)
        if held and drafting and held.rate(yields) >= max(rate / BETTER, BETTER * plain):
            return held
        return found if rate > (BETTER if drafting else WORTH) * plain else cls(1, together)

    @classmethod
    def _parted(cls, yields: Yields, grid: int, rate: float) -> Schedule | None:
        """The best strides on a grid of those that beat a rate."""
        schedule = None
        for _ in range(ROUNDS):
            strides = yields.parted(grid, rate)
            if strides is None:
                break
            schedule = cls(grid, strides)
            rate = schedule.rate(yields)
        return schedule

    @property
    def drafts(self) -> bool:
        """Whether any row drafts."""
        return self.grid * int(self.strides.max()) > 1

    def rate(self, yields: Yields) -> float:
        """Expected tokens per second."""
        return yields.rate(self.grid, self.strides)

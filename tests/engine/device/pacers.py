"""Pacers for tests: what they say does not depend on what pays."""

from __future__ import annotations

import random

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.pacing.pacer import Action, Decisions, Pacer


class Whim(Pacer):
    """Decides at random, row by row and step by step; drafts half of the time, now and then in bursts."""

    name, most, foretells = "whim", 3, False

    def __init__(self, seed: int):
        self._random, self._actions = random.Random(seed), (*Action, Action.DRAFT)

    def admit(self, rows):
        pass

    def decide(self, rows, room):
        left = self.most - max(rows.column(rows.rows.draft_len))
        if left and self._random.random() < 0.3:
            burst, closes = self._random.randint(1, left), self._random.random() < 0.5
            return Decisions([Action.DRAFT] * len(room), room, burst=burst, closes=closes)
        return Decisions([self._random.choice(self._actions) for _ in room], room)

    def trim(self, rows):
        return rows.column(rows.rows.draft_len)

    def observe(self, rows, outcomes):
        pass

    def retire(self, rows):
        pass


class Told:
    """Says the next entry of a list, for all rows; keeps what it was shown. `bursts`: of each, closed by a
    verification."""

    def __init__(self, *answers, bursts=(), **more):
        self.answers, self.seen, self._more, self._bursts = list(answers), [], more, list(bursts)

    def decide(self, view, room):
        self.seen.append((view.column(view.rows.draft_len), room))
        burst = self._bursts.pop(0) if self._bursts else 0
        return Decisions(self.answers.pop(0), room, **{"burst": burst, "closes": burst > 0} | self._more)


def three_rows(most: int) -> RowView:
    """Rows of 10 tokens that may reach 13, 20 and 30."""
    rows = Rows(3, 40, most)
    pool = PagePool(CacheShape(1, 1, 8), 9, 16, rows.draft_entropy.dtype)
    for slot, limit in enumerate((13, 20, 30)):
        rows.open(slot, list(range(10)), Sequence(pool), limit)
    return RowView(rows, (0, 1, 2))

"""Trying a draft again where drafting has not paid: what is never tried is never seen to pay."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PROBE, LAST_PROBE = 48, 384
"""Plain tokens after which drafting is tried again; doubled each time it does not pay."""

HOLDS = 16
"""Steps that plain decoding is foretold for, at most: prices and lengths hardly move meanwhile."""


@dataclass(slots=True)
class Probe:
    """When one row, or the rows of a batch together, should try a draft although plain decoding looks faster."""

    first: int = FIRST_PROBE
    last: int = LAST_PROBE
    plain_streak: int = 0
    due: bool = False
    after: int = 0
    trying: bool = False

    def __post_init__(self) -> None:
        self.after = self.first

    def left(self) -> int:
        """Plain steps that may well go by before this is asked again; a draft that is due already is not thought worth
        it now."""
        return HOLDS if self.due else min(HOLDS, max(0, self.after - self.plain_streak))

    def take(self) -> None:
        """The trial is under way: it is due no more, also where its outcome comes a step late."""
        self.due, self.trying = False, True
        self.after = min(2 * self.after, self.last)

    def count(self, drafted: bool) -> None:
        """Counts one step, and whether it verified a draft; after enough plain ones a draft is due."""
        self.plain_streak = 0 if drafted else self.plain_streak + 1
        if drafted and self.due:
            self.take()
        if drafted and self.trying:
            self.trying = False
        elif drafted:
            self.after = self.first
        elif self.plain_streak >= self.after:
            self.due = True

"""Which drafter a row takes next: a rule over expected speeds, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glimpse.drafting.auto import PLAIN

ENTER, DEARER, DEAREST = 1.06, 0.04, 1.22
"""Expected speed over plain decoding from which a row begins to draft; more after each time that it did not pay."""
BETTER = 1.06
"""How much faster another drafter has to look than the one that drafts."""
DWELL = 12
"""Tokens that a row stays with a choice, at least."""
PROVEN = 64
"""Tokens after which a drafter has paid: the next one need not make up for those before it."""


@dataclass(slots=True)
class Chooser:
    """One row's choice."""

    current: str
    since: int = 0
    """Position of the last change."""
    failures: int = 0

    def decide(self, position: int, speeds: Mapping[str, float]) -> bool:
        """Whether the choice changes here; `speeds` are over plain decoding, whose own is 1."""
        if position - self.since < DWELL:
            return False
        best = max(speeds, key=lambda name: speeds[name])
        if self.current == PLAIN:
            needed = min(ENTER + DEARER * self.failures, DEAREST)
        elif speeds[self.current] < 1:
            needed = speeds[self.current]
        else:
            needed = BETTER * speeds[self.current]
        if best == self.current or speeds[best] <= needed:
            return False
        self._change(best, position)
        return True

    def _change(self, name: str, position: int) -> None:
        if name == PLAIN:
            proven = position - self.since >= PROVEN
            self.failures = 1 if proven else self.failures + 1
        self.current, self.since = name, position

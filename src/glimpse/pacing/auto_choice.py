"""Which drafter a row takes next: a rule over expected speeds, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glimpse.drafting.auto import PLAIN

ENTER, DEARER, DEAREST = 1.06, 0.04, 1.22
"""Expected speed over plain decoding from which a row begins to draft; more after each time that it did not pay."""
LEAVE, SETTLED = 0.95, 0.985
"""Below this expected speed a drafter is left, for one that would pay (`ENTER`), else for plain decoding: at first,
while little is known and a text may be about to repeat itself, and after `PROVEN` tokens."""
BETTER = 1.12
"""How much faster another drafter has to look than the one that drafts."""
DWELL = 12
"""Tokens that a row stays with a choice, at least."""
PROVEN = 64
"""Tokens after which a drafter is known: if it is left then, it has paid for itself."""


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
        best, drafting = max(speeds, key=lambda name: speeds[name]), self.current != PLAIN
        least = LEAVE if position - self.since < PROVEN else SETTLED
        if drafting and speeds[self.current] < least:
            taken = best if speeds[best] > ENTER else PLAIN
        elif drafting:
            taken = best if speeds[best] > BETTER * speeds[self.current] else self.current
        else:
            taken = best if speeds[best] > min(ENTER + DEARER * self.failures, DEAREST) else PLAIN
        if taken == self.current:
            return False
        self._change(taken, position)
        return True

    def _change(self, name: str, position: int) -> None:
        if name == PLAIN:
            proven = position - self.since >= PROVEN
            self.failures = 1 if proven else self.failures + 1
        self.current, self.since = name, position

"""Which drafter a row takes next: a rule over expected speeds, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glimpse.drafting.auto import PLAIN

ENTER, DEARER, DEAREST = 1.06, 0.04, 1.22
"""Expected speed over plain decoding from which a row begins to draft; more after each time that it did not pay."""
MEANS, MORE = 1.0, 0.005
"""What drafting may cost a request over plain decoding: so many plain steps, and so much more for each token. A drafter
that looks slower than plain decoding is left when that is spent, for one that would pay (`ENTER`), else for plain
decoding. Not sooner: nodes are priced, so that one whose drafts never come true loses a few percent, and texts whose
first tokens do not repeat anything do so later as often as others (docs/performance.md)."""
SAVED = 3.0
"""Plain steps that count as saved, at most: a text that paid once may not lose for ever."""
BETTER, DOUBT = 1.12, 48
"""How much faster another drafter has to look than the one that drafts; by twice as much where only so many tokens have
been seen since the last change, as a few rounds say little."""
DWELL = 12
"""Tokens that a row stays with a choice, at least."""
PROVEN = 64
"""Tokens after which a drafter that is left has paid for itself: the next one need not make up for those before it."""


@dataclass(slots=True)
class Chooser:
    """One row's choice."""

    current: str
    since: int = 0
    """Position of the last change."""
    failures: int = 0
    means: float = MEANS
    """None in a batch, where drafting has to have saved what it loses."""
    loss: float = 0.0
    """Plain steps that drafting has cost so far, less those it saved."""

    def book(self, tokens: int, steps: float) -> None:
        """A round of the drafter that gave so many tokens in the time of so many plain steps."""
        self.loss = max(self.loss + steps - tokens, -SAVED)

    def decide(self, position: int, speeds: Mapping[str, float]) -> bool:
        """Whether the choice changes here; `speeds` are over plain decoding, whose own is 1."""
        if position - self.since < DWELL:
            return False
        best, drafting = max(speeds, key=lambda name: speeds[name]), self.current != PLAIN
        spent = self.loss > self.means + MORE * position
        if drafting and spent and speeds[self.current] < 1:
            taken = best
        elif drafting:
            taken = best if speeds[best] > self._margin(position) * speeds[self.current] else self.current
        else:
            taken = best if speeds[best] > min(ENTER + DEARER * self.failures, DEAREST) else PLAIN
        if taken == self.current:
            return False
        self._change(taken, position)
        return True

    def _margin(self, position: int) -> float:
        return 1 + (BETTER - 1) * (1 + DOUBT / (position - self.since))

    def _change(self, name: str, position: int) -> None:
        if name == PLAIN:
            proven = position - self.since >= PROVEN
            self.failures = 1 if proven else self.failures + 1
        self.current, self.since = name, position

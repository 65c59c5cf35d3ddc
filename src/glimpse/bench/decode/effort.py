"""How much is measured of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glimpse.bench.decode.steps import EIGHT


@dataclass(frozen=True, slots=True)
class Effort:
    """Repeats of steps and runs."""

    pairs: int = 5
    """Plain and drafted runs, in turn, that count."""
    steps: int = 32
    """Tokens of a plain run."""
    rounds: int = 8
    """Rounds of a drafted run."""
    repeats: int = 6
    """Times each step is timed."""
    seconds: float = 120.0
    """No further pair of a law begins after this; one pair is always run."""

    def room(self, drafts: Sequence[int]) -> int:
        """Tokens that a row must be able to write from the end of its prompt on."""
        width = max(drafts) + 1
        rounds = max(self.rounds, self.repeats + 3)
        return max(self.steps, 2 * self.repeats + 2, rounds * width, 2 * (EIGHT + 1))

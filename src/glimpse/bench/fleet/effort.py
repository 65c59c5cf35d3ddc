"""How much is measured of a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetEffort:
    """Turns, and the tokens of a run."""

    turns: int = 5
    """Runs of every arm that count, in turn."""
    rows: int = 16
    """A batch of fewer rows gets so many runs of a row at least."""
    warm: int = 16
    """Tokens a row, on average, before the clock runs."""
    tokens: int = 112
    """Tokens a row, on average, while it runs: some 25 rounds, in which a pacer's choices show."""
    room: int = 192
    """Tokens that one row may write; a run ends early where one has. Rows may be half ahead of the average; with more,
    a context of 8,000 would be past the 8,192 positions that the demo model was trained on."""
    again: int = 2
    """Times that a run is run again, in which a graph was captured."""
    seconds: float = 60.0
    """No further turn of a batch begins so long after the first that counts."""

    def turns_of(self, rows: int) -> int:
        """Turns of a batch of so many rows."""
        return max(self.turns, math.ceil(self.rows / rows))

"""By which rule a row's next blocks are cut, foretold: where they are made nobody has time to ask.

The marginal criterion (`worth`) keeps a token while P(the text runs through it) is at least its price times the rate
reached. Rate, prices and how far the confidences can be trusted move slowly; the confidences themselves are known
where the block is made. So the rule is a few numbers for each row, and one comparison a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glimpse.pacing.proposals import DEPTHS, SURENESS, SUREST, Floats, Proposal, Trust

NUMBERS = 1 + DEPTHS * (len(SURENESS) + 1)
"""How many numbers a rule is."""


@dataclass(frozen=True, slots=True)
class CutRule:
    """How long one row's drafts are."""

    floor: float
    """A draft ends before the chance that the text runs through a token falls below this."""
    ratios: Floats
    """[DEPTHS, len(SURENESS) + 1]: what a confidence is worth, over what it says, by depth and sureness."""

    @classmethod
    def of(cls, trust: Trust, floor: float) -> CutRule:
        """By what was learned of a row's blocks."""
        return cls(floor, trust.ratios(0))

    def length(self, said: Floats) -> int:
        """How many tokens are kept of a chain with these confidences [n]; the definition of what the device does."""
        depth = np.minimum(np.arange(len(said)), DEPTHS - 1)
        sure = (said[:, None] > np.array(SURENESS)).sum(1)
        reach = np.cumprod(np.minimum(said * self.ratios[depth, sure], SUREST))
        return int((reach >= self.floor).sum())

    @property
    def numbers(self) -> list[float]:
        """[NUMBERS]: the floor, then the ratios row after row."""
        return [self.floor, *self.ratios.ravel().tolist()]


def chain_of(tokens: list[int], said: list[float]) -> Proposal:
    """A block as a proposal."""
    count = len(tokens)
    return Proposal(
        np.array(tokens, np.int64), np.arange(-1, count - 1), np.array(said, np.float64), np.zeros(count, np.int64),
        np.arange(1, count + 1),
    )  # fmt: skip

"""By which rule a row's next blocks are cut, foretold: where they are made nobody has time to ask.

The marginal criterion (`worth`) keeps a token while P(the text runs through it) is at least its price times the rate
reached. Rate, prices and how far the confidences can be trusted move slowly; the confidences themselves are known
where the block is made. So the rule is a few numbers for each row, and one comparison a token. LibraSpec's search
(`libra`) needs the block's confidences and a constant besides: a second pass, from the last token to the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glimpse.pacing.libra import farthest
from glimpse.pacing.proposals import DEPTHS, LEAST, SURENESS, SUREST, Floats, Proposal, Trust

NUMBERS = 2 + DEPTHS * (len(SURENESS) + 1)
"""How many numbers a rule is."""


@dataclass(frozen=True, slots=True)
class CutRule:
    """How long one row's drafts are."""

    floor: float
    """A draft ends before the chance that the text runs through a token falls below this."""
    ratios: Floats
    """[DEPTHS, len(SURENESS) + 1]: what a confidence is worth, over what it says, by depth and sureness."""
    alpha: float = 0.0
    """With this constant a draft ends where LibraSpec's search does, too; 0: there is no search."""

    @classmethod
    def of(cls, trust: Trust, floor: float, alpha: float = 0.0) -> CutRule:
        """By what was learned of a row's blocks."""
        return cls(floor, trust.ratios(0), alpha)

    def length(self, said: Floats) -> int:
        """How many tokens are kept of a chain with these confidences [n], all that is offered; the definition of what
        the device does."""
        depth = np.minimum(np.arange(len(said)), DEPTHS - 1)
        sure = (said[:, None] > np.array(SURENESS)).sum(1)
        chances = np.minimum(np.maximum(said, LEAST) * self.ratios[depth, sure], SUREST)
        kept = int((np.cumprod(chances) >= self.floor).sum())
        return min(kept, farthest(chances, self.alpha)) if self.alpha and len(said) else kept

    @property
    def numbers(self) -> list[float]:
        """[NUMBERS]: the floor, alpha, then the ratios row after row."""
        return [self.floor, self.alpha, *self.ratios.ravel().tolist()]


def chain_of(tokens: list[int], said: list[float]) -> Proposal:
    """A block as a proposal."""
    count = len(tokens)
    return Proposal(
        np.array(tokens, np.int64), np.arange(-1, count - 1), np.array(said, np.float64), np.zeros(count, np.int64),
        np.arange(1, count + 1),
    )  # fmt: skip

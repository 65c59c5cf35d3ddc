"""Which mask groups ride on a verification: those that are worth more than they cost.

FlexDraft (arXiv 2605.20022) drafts the next block in the forward that verifies this one, a group of masks for every
number of tokens that may be accepted ("parallel"), or in a forward of its own afterwards ("sequential"), by batch size.
Here every group is priced. The one behind g accepted tokens comes true with the chance that just g are accepted; then
the next step can verify a block instead of making one, which is worth what such a block yields. It rides if

    P(just g accepted) * E[accepted of a block] * seconds a token > seconds that its masks add,

all of it measured, and if all groups of a step together gain more than its first mask costs. So a row alone has groups
wherever it may end, a full batch has none beside drafts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.proposals import Floats

MODES = ("auto", "parallel", "sequential")
PAST = 0.9
"""Weight of the past in how many tokens of a block are accepted."""
FIRST_GUESS = 2.0
"""Tokens of a block that are accepted, before any was verified."""


class GroupPricer:
    """Chooses groups by what steps cost, or in one of the paper's two fixed ways."""

    def __init__(self, costs: StepCosts, mode: str = "auto") -> None:
        self._costs, self._mode = costs, mode
        self._accepted = FIRST_GUESS

    def observe(self, accepted: int) -> None:
        """A block was verified, and so many of its tokens were accepted."""
        self._accepted = PAST * self._accepted + (1 - PAST) * accepted

    def wanted(self, confidences: Sequence[Floats], lengths: Sequence[int], masks: int) -> list[tuple[int, ...]]:
        """For rows that verify drafts with these confidences over texts of these lengths: behind how many accepted
        tokens a group of `masks` rides. A row without a draft always has its one group."""
        if self._mode == "parallel":
            return [tuple(range(len(row) + 1)) for row in confidences]
        if self._mode == "sequential":
            return [() if len(row) else (0,) for row in confidences]
        worth = self._accepted * self._seconds_a_token(confidences, lengths)
        prices = self._costs.marginal(draft_tokens=masks, draft_kv=np.array(lengths, np.float64))
        gains = [endings(row) * worth - price for row, price in zip(confidences, prices, strict=True)]
        # The first mask of a step has the layers' weights read once more; a row without a draft has it there anyway.
        paid = any(len(row) == 0 for row in confidences)
        first = 0.0 if paid else float(self._costs.marginal(riding=1))
        if sum(float(gain[gain > 0].sum()) for gain in gains) <= first:
            gains = [np.full(len(gain), -1.0) for gain in gains]
        return [
            tuple(np.flatnonzero(gain > 0).tolist()) if len(row) else (0,)
            for row, gain in zip(confidences, gains, strict=True)
        ]

    def _seconds_a_token(self, confidences: Sequence[Floats], lengths: Sequence[int]) -> float:
        """What a token of this step takes, its expected ones."""
        pairs = [(len(row) + 1, length) for row, length in zip(confidences, lengths, strict=True)]
        tokens, read = sum(count for count, _ in pairs), sum(lengths)
        load = StepLoad(full_tokens=tokens, full_kv=read, pairs=sum(count * length for count, length in pairs))
        expected = sum(1 + float(np.cumprod(row).sum()) for row in confidences)
        return self._costs.seconds(load) / expected


def endings(confidence: Floats) -> Floats:
    """[n + 1]: the chance that just 0, 1, ... n tokens of a chain are accepted, for the chance of each."""
    reach = np.concatenate(([1.0], np.cumprod(confidence), [0.0]))
    return np.asarray(reach[:-1] - reach[1:])

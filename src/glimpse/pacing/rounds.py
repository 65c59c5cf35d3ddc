"""What a round of drafting and verifying costs, by the measured step-time surface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.pacing.costs import StepCosts, StepLoad

PLAIN_FIRST = 2
"""Plain steps that are run before the first draft; they write text like any other."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds that R rows add to the steps they take part in, beyond what a step costs whatever it carries."""

    step: float
    """What a step costs whatever it carries."""
    begin: float
    """Choosing a recall set, once a round; 0 where nothing is drafted by forwards."""
    draft: np.ndarray
    """[R, 1]: one draft step; 0 where drafts need no forward."""
    full: np.ndarray
    """[R, K + 1]: verifying 0 (plain decoding), 1, ..., K draft tokens."""

    @property
    def rounds(self) -> np.ndarray:
        """[R, K + 1]: whole rounds of 0, 1, ..., K draft tokens."""
        drafted = np.arange(self.full.shape[1])
        return np.asarray(self.full + self.draft * drafted + self.begin * (drafted > 0))


class RoundPrices:
    """Prices rounds by `StepCosts`; `positions(length)` is how many positions a draft step reads."""

    def __init__(self, costs: StepCosts, positions: Callable[[int], int]) -> None:
        self._costs, self._positions = costs, positions

    def shares(self, lengths: list[int], most: int, *, drafting: bool) -> np.ndarray:
        """[R, most + 1]: seconds of whole rounds, each row answering for its share of the steps they take."""
        prices = self.of(lengths, most, drafting=drafting)
        steps = 1 + (np.arange(most + 1) if drafting else 0)
        return np.asarray(prices.rounds + steps * prices.step / len(lengths))

    def of(self, lengths: list[int], most: int, *, drafting: bool) -> Prices:
        """Prices of rows of these committed lengths, for up to `most` draft tokens; `drafting`: forwards draft."""
        step = float(self._costs.coefficients[0])
        length, counts = np.array(lengths)[:, None], np.arange(1, most + 2)
        kv, pairs = length + counts, length * counts
        full = self._costs.marginal(full_tokens=counts, full_kv=kv, pairs=pairs)
        if not drafting:
            return Prices(step, 0.0, np.zeros((len(lengths), 1)), full)
        begin = self._costs.seconds(StepLoad(rounds=1)) - step
        read = np.array([self._positions(each) for each in lengths])[:, None]
        return Prices(step, begin, self._costs.marginal(draft_tokens=1, draft_kv=read), full)

    def plain_is_unknown(self, rows: RowView) -> bool:
        """Whether plain steps of these rows have hardly run yet: they are what drafting must beat."""
        lengths = rows.column(rows.rows.committed_len)
        plain = StepLoad(full_tokens=len(rows), full_kv=sum(lengths), pairs=sum(lengths))
        return self._costs.seen(plain) < PLAIN_FIRST


def confidences(rows: RowView, drafted: list[int]) -> np.ndarray:
    """[R, longest]: the drafter's own chance of each token of whole drafts; 0 behind a draft's end."""
    longest = max(drafted)
    chances = rows.rows.draft_confidence[list(rows.slots), :longest].numpy().astype(np.float64)
    return np.where(np.arange(longest) < np.array(drafted)[:, None], chances, 0.0)

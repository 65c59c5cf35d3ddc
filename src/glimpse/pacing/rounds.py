"""What a round of drafting and verifying yields and costs, by the measured step-time surface.

A step of a mixed batch costs something whatever it carries, and each row adds what it reads and computes (ASPIRE's
form, arXiv 2609.17943). Rows draft and verify in the same steps, so what a step costs anyway is shared by all of
them alike, and a row that drafts g tokens answers for its share of g + 1 steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.proposals import Floats
from glimpse.pacing.strides import Yields
from glimpse.pacing.worth import token_prices

PLAIN_FIRST = 2
"""Plain steps that are run before the first draft; they write text like any other."""


class RoundPrices:
    """Prices rounds by `StepCosts`; `positions(length)` is how many positions a draft step reads."""

    def __init__(self, costs: StepCosts, positions: Callable[[int], int]) -> None:
        self._costs, self._positions = costs, positions

    def rates(self, rows: RowView, chances: np.ndarray, *, drafting: bool) -> np.ndarray:
        """[R, K + 1]: expected tokens per second of rounds of 0 (plain decoding), 1, ..., K draft tokens.

        `chances` [R, K]: P(accepted, given that all before it were); `drafting`: each draft token takes a step of the
        engine (else the drafts are there already, and a round is one step). A row answers for its share of a step.
        """
        lengths = rows.column(rows.rows.committed_len)
        own, most = self._seconds(lengths, chances.shape[1], drafting=drafting), chances.shape[1]
        steps = 1 + np.arange(most + 1) * drafting
        return np.asarray(tokens_of(chances) / (own + steps * self._step / len(lengths)))

    def yields(self, rows: RowView, chances: np.ndarray) -> Yields:
        """What rounds of drafts by forwards yield, and what they add to the steps that the batch runs anyway."""
        lengths = rows.column(rows.rows.committed_len)
        own = self._seconds(lengths, chances.shape[1], drafting=True)
        own = own + self._off(lengths, chances.shape[1]) / len(lengths)
        return Yields(tokens_of(chances), own, self._step, float(self._costs.marginal(mixed=1)))

    def plain_is_unknown(self, rows: RowView) -> bool:
        """Whether plain steps of these rows have hardly run yet: they are what drafting must beat."""
        lengths = rows.column(rows.rows.committed_len)
        plain = StepLoad(full_tokens=len(rows), full_kv=sum(lengths), pairs=sum(lengths))
        return self._costs.seen(plain) < PLAIN_FIRST

    def measured(self, rows: RowView, drafts: int) -> int:
        """How many verifications of so many drafts a row, of all rows together, have been measured; at most 9."""
        return max(map(self._costs.seen, _verifications(rows.column(rows.rows.committed_len), drafts)))

    def spent(self, rows: RowView, drafted: list[int]) -> float:
        """Seconds of rounds that drafted so many tokens a row, side by side, and verify none of them."""
        lengths = rows.column(rows.rows.committed_len)
        read = sum(count * self._positions(length) for count, length in zip(drafted, lengths, strict=True))
        drafting = self._costs.marginal(draft_tokens=sum(drafted), draft_kv=read, rounds=len(drafted))
        plain = StepLoad(full_tokens=len(lengths), full_kv=sum(lengths), pairs=sum(lengths))
        return self._costs.seconds(StepLoad()) * max(drafted) + float(drafting) + self._costs.seconds(plain)

    def of_tokens(self, rows: RowView) -> Floats:
        """[R]: as `token_prices`, of these rows."""
        return token_prices(self._costs, rows.column(rows.rows.committed_len))

    def _off(self, lengths: list[int], most: int) -> np.ndarray:
        """[most + 1]: by how much the verification of all rows together misses the straight line that prices steps.

        On a GPU it is no line: any verification is dearer than a plain step by its tiles, and the first few tokens more
        are nearly free. Between lengths that were measured so, and beyond them, their misses are drawn out; plain steps
        have their own.
        """
        drafts = np.arange(1, most + 1)
        known = {count: off for count in (0, *drafts.tolist()) if (off := self._missed(lengths, count)) is not None}
        plain = known.pop(0, 0.0)
        others = np.interp(drafts, list(known), list(known.values())) if known else np.zeros(most)
        return np.concatenate(([plain], others))

    def _missed(self, lengths: list[int], drafts: int) -> float | None:
        known = (self._costs.off(load) for load in _verifications(lengths, drafts))
        return next((off for off in known if off is not None), None)

    @property
    def _step(self) -> float:
        return float(self._costs.coefficients[0])

    def _seconds(self, lengths: list[int], most: int, *, drafting: bool) -> np.ndarray:
        """[R, most + 1]: seconds that each row adds to the steps of its round, by the draft's length."""
        drafted = np.arange(most + 1)
        count, length = 1 + drafted, np.array(lengths)[:, None]
        seconds = self._costs.marginal(full_tokens=count, full_kv=length + count, pairs=length * count)
        if drafting:
            positions = np.array([self._positions(each) for each in lengths])[:, None]
            token = self._costs.marginal(draft_tokens=1, draft_kv=positions)
            seconds = seconds + token * drafted + float(self._costs.marginal(rounds=1)) * (drafted > 0)
        return np.asarray(seconds)


def _verifications(lengths: list[int], drafts: int) -> list[StepLoad]:
    """What one step carries that verifies so many drafts of each row (0: a plain step), as a GPU and a CPU count it."""
    rows, total, count = len(lengths), sum(lengths), 1 + drafts
    # A GPU chooses recall sets where it verifies.
    return [
        StepLoad(full_tokens=rows * count, full_kv=total + rows * count, pairs=total * count, rounds=begun)
        for begun in ((rows, 0) if drafts else (0,))
    ]


def tokens_of(chances: np.ndarray) -> np.ndarray:
    """[R, K + 1]: expected tokens of rounds of 0, ..., K drafts with chances [R, K], the target's own one counted."""
    reached = np.cumprod(chances, 1)
    return 1 + np.concatenate([np.zeros((len(chances), 1)), np.cumsum(reached, 1)], 1)


def confidences(rows: RowView, drafted: list[int]) -> np.ndarray:
    """[R, longest]: the drafter's own chance of each token of whole drafts; 0 behind a draft's end."""
    longest = max(drafted)
    chances = rows.rows.draft_confidence[list(rows.slots), :longest].numpy().astype(np.float64)
    return np.where(np.arange(longest) < np.array(drafted)[:, None], chances, 0.0)

"""Each row of a batch at its own pace (ASPIRE, arXiv 2609.17943, "scheduler").

At every step each row either drafts one more token or verifies what it has: it verifies once its draft is as long as
its best length, which is worked out anew from the running acceptance by depth (`chances`), the measured costs of a step
(`costs`) and how many share a step (`rounds`). What differs from the paper, and by how much it pays: docs/pacing.md.
"""

from __future__ import annotations

import math

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chances import DepthChances
from glimpse.pacing.pacer import Action, Decisions, PaceContext, draft_up_to
from glimpse.pacing.probe import Probe
from glimpse.pacing.rounds import RoundPrices, confidences

FIRST_TRIAL, LAST_TRIAL = 192, 768
"""Plain tokens of the whole batch between trials of a draft: a trial costs about one and a half of them."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, less their whole parts, are spread evenly however many there are."""


class FleetPacer:
    """Draft or verify, row by row, for the most tokens per second of the batch; plain where no draft pays.

    Where every row decodes plainly, one row at a time tries a draft now and then. Rows of equal lengths that began
    together would verify together for ever, and a step of that many tokens takes longer than its share: so each
    request's first draft is cut to another part of its best length, which spreads the rows' verifications for good.
    """

    name = "fleet"
    foretells = False
    DEFAULT_MOST = 16

    def __init__(self, context: PaceContext) -> None:
        self._prices = RoundPrices(context.costs, context.draft_positions)
        self._at_once = context.drafts_at_once
        asked = self.DEFAULT_MOST if context.draft_tokens is None else context.draft_tokens
        self.most = asked if context.can_draft else 0
        self._chances = DepthChances(self.most)
        self._probe = Probe(FIRST_TRIAL, LAST_TRIAL)
        self._admitted = 0
        self._first: dict[int, float] = {}
        """For rows that have verified no draft yet: which part of its best length the first one is."""

    @classmethod
    def build(cls, context: PaceContext) -> FleetPacer:
        """With the longest draft asked for."""
        return cls(context)

    def admit(self, rows: RowView) -> None:
        """Start values for each request."""
        for slot in rows.slots:
            self._chances.admit(slot)
            self._first[slot] = 1 - self._admitted * _GOLDEN % 1
            self._admitted += 1

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft one more where the draft is shorter than the row's best length."""
        drafted = rows.column(rows.rows.draft_len)
        more = [min(self.most - have, most) for have, most in zip(drafted, room, strict=True)]
        if not any(drafted) and self._prices.plain_is_unknown(rows):
            return Decisions([Action.PLAIN] * len(rows), [0] * len(rows))
        if self._at_once or not self.most:
            return Decisions([Action.DRAFT if left > 0 else Action.PLAIN for left in more], more)
        best = self.lengths(rows, [have + max(0, left) for have, left in zip(drafted, more, strict=True)])
        if len(rows) > 1:
            best = [math.ceil(self._first.get(slot, 1) * length) for slot, length in zip(rows.slots, best, strict=True)]
        return draft_up_to(best, rows, room, holds=self._probe.left(len(rows)))

    def lengths(self, rows: RowView, most: list[int]) -> list[int]:
        """Each row's best draft length of at most `most`."""
        # A token there is no room for adds nothing, and costs.
        room = np.arange(self.most) < np.array(most)[:, None]
        chances = np.where(room, self._chances.of(rows.slots), 0.0)
        return self._best(self._prices.rates(rows, chances, drafting=True), most, 1)

    def trim(self, rows: RowView) -> list[int]:
        """The best length of each deterministic draft, by the drafter's word."""
        drafted = rows.column(rows.rows.draft_len)
        if not any(drafted):
            return drafted
        return self._best(self._prices.rates(rows, confidences(rows, drafted), drafting=False), drafted, 2)

    def _best(self, rates: np.ndarray, most: list[int], trial: int) -> list[int]:
        """The lengths with the highest rates; where all are 0 and a trial is due, one row drafts `trial` tokens."""
        best = [int(length) for length in rates.argmax(1)]
        if self._probe.due and not any(best):
            row = int(np.argmax(most))
            best[row] = min(trial, most[row])
        return best

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Moves the estimates by the tokens that were judged."""
        for outcome in outcomes:
            self._probe.count(bool(outcome.drafted))
            if outcome.drafted and not self._at_once:
                self._first.pop(outcome.slot, None)
                self._chances.learn(outcome.slot, outcome.drafted, outcome.accepted)

    def retire(self, rows: RowView) -> None:
        """Drops the estimates."""
        for slot in rows.slots:
            self._chances.retire(slot)
            self._first.pop(slot, None)

"""A batch paced for its most tokens per second: each row verifies at its own pace, where that pays (ASPIRE,
arXiv 2609.17943, "scheduler").

How long drafts are is worked out from the running acceptance by depth (`chances`), the measured costs of a step
(`costs`, `rounds`) and what mixed steps cost (`strides`): rows verify on a common grid, every time or every second or
third time. Where mixed steps are dear, the batch drafts and verifies in step, with the length that is best for it as a
whole. What differs from the paper, and by how much it pays: docs/pacing.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chances import DepthChances
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer
from glimpse.pacing.probe import Probe
from glimpse.pacing.rounds import RoundPrices, confidences
from glimpse.pacing.strides import GRIDS, Schedule

HELD, LONGEST = 4, 32
"""Verifications of the batch (plain steps count) until grid and strides are worked out anew; twice as many each time
that this changes nothing, at most. Plain steps teach nothing that could change it: for them it is the most at once."""
TRIALS, ATTEMPTS = 3, 6
"""Verifications that must have been measured of a grid beside the best before it is known to be worse, and rounds that
this may take: a GPU's first step of a kind compiles kernels and is not measured, and one step is believed by half."""


class FleetPacer(Pacer):
    """Draft or verify, row by row, for the most tokens per second of the batch; plain where no draft pays.

    Where every row decodes plainly, all of them try a draft of one token now and then: together that costs one draft
    step, alone in a batch a mixed one.
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
        self._probe = Probe()
        self._best = self._grid = 1
        """The grid that is best by what is known, and the one that is run: now and then one beside it."""
        self._strides: dict[int, int] = {}
        """By slot; a new row goes with the grid."""
        self._left, self._held, self._size = 0, HELD, 0
        """Verifications of the batch until the schedule is worked out anew, how many there were at first, and the size
        of the batch, to a factor of two, that it is for."""
        self._known: set[int] = set()
        """Sizes of batches, to a factor of two, whose plain steps have been measured."""
        self._ran: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """For each such size, how often each grid has been begun."""

    @classmethod
    def build(cls, context: PaceContext) -> FleetPacer:
        """With the longest draft asked for."""
        return cls(context)

    def admit(self, rows: RowView) -> None:
        """Start values for each request."""
        for slot in rows.slots:
            self._chances.admit(slot)
            self._strides[slot] = 1

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft on until the grid's next point; there, verify the rows whose turn it is."""
        drafted = rows.column(rows.rows.draft_len)
        more = [max(0, min(self.most - have, most)) for have, most in zip(drafted, room, strict=True)]
        if not any(drafted) and self._plain_is_unknown(rows):
            return Decisions([Action.PLAIN] * len(rows), [0] * len(rows))
        if self._at_once or not self.most:
            return Decisions([Action.DRAFT if left else Action.PLAIN for left in more], more)
        strides = self._strides_of(rows)
        first = min(strides)
        ahead = max(have for have, stride in zip(drafted, strides, strict=True) if stride == first)
        left = min(first * self._grid - 1 - ahead, max(more))
        if left > 0:
            actions = [Action.DRAFT if room else _ends(have) for have, room in zip(drafted, more, strict=True)]
            closes = max(strides) == first
            self._left -= closes  # nobody asks again before that verification
            return Decisions(actions, more, burst=left, closes=closes)
        self._left -= 1
        actions = [
            Action.DRAFT if stride > first and room and have < stride * self._grid - 1 else _ends(have)
            for have, room, stride in zip(drafted, more, strides, strict=True)
        ]
        return Decisions(actions, more, holds=self._probe.left())

    def trim(self, rows: RowView) -> list[int]:
        """The best length of each deterministic draft, by the drafter's word."""
        drafted = rows.column(rows.rows.draft_len)
        if not any(drafted):
            return drafted
        rates = self._prices.rates(rows, confidences(rows, drafted), drafting=False)
        best = [int(length) for length in rates.argmax(1)]
        if self._probe.due and not any(best):
            row = int(np.argmax(drafted))
            best[row] = min(2, drafted[row])
        return best

    def schedule(self, rows: RowView) -> Schedule:
        """The best grid and strides by what is known now."""
        held = Schedule(self._best, np.array([self._strides[slot] for slot in rows.slots]))
        return Schedule.best(self._prices.yields(rows, self._chances.of(rows.slots)), held)

    def gain(self, rows: RowView) -> float:
        """Speed of the best schedule over plain decoding, by what is known now; 1 where plain steps are unknown."""
        if self._plain_is_unknown(rows):
            return 1.0
        yields = self._prices.yields(rows, self._chances.of(rows.slots))
        return float(Schedule.best(yields).rate(yields) / yields.in_step(np.ones(1, dtype=np.int64))[0])

    def plain_seconds(self, rows: RowView) -> float:
        """Seconds of a plain step of these rows, a row's share of it."""
        yields = self._prices.yields(rows, self._chances.of(rows.slots))
        return float(1 / yields.in_step(np.ones(1, dtype=np.int64))[0])

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Moves the estimates by the tokens that were judged."""
        judged = any(outcome.drafted for outcome in outcomes)
        self._probe.count(judged)
        if judged and self._best == 1:
            self._left = 0  # a trial's outcome, which may come a step late
        for outcome in outcomes:
            if outcome.drafted and not self._at_once:
                self._chances.learn(outcome.slot, outcome.drafted, outcome.accepted)

    def retire(self, rows: RowView) -> None:
        """Drops the estimates."""
        for slot in rows.slots:
            self._chances.retire(slot)
            self._strides.pop(slot, None)

    def _plain_is_unknown(self, rows: RowView) -> bool:
        size = len(rows).bit_length()
        if size not in self._known and not self._prices.plain_is_unknown(rows):
            self._known.add(size)
        return size not in self._known

    def _strides_of(self, rows: RowView) -> list[int]:
        """Each row's stride; worked out anew where it is time."""
        size = len(rows).bit_length()
        if self._left <= 0 or size != self._size:
            self._work_out(rows, size)
        strides = [self._strides[slot] for slot in rows.slots]
        if self._probe.due and self._grid == 1 and max(strides) == 1:
            self._probe.take()
            return [2] * len(strides)
        return strides

    def _work_out(self, rows: RowView, size: int) -> None:
        found = self.schedule(rows)
        same = (found.grid, size) == (self._best, self._size)
        self._held = LONGEST if not found.drafts else min(2 * self._held, LONGEST) if same else HELD
        self._size = size
        self._best, self._left = found.grid, self._held
        self._strides |= zip(rows.slots, found.strides.tolist(), strict=True)
        self._grid = self._beside(rows) if max(found.strides) == 1 < found.grid else found.grid
        if self._grid != self._best:
            self._left = 1

    def _beside(self, rows: RowView) -> int:
        """The best grid, or for one round one next to it of which batches of this size know too little.

        What longer drafts cost, and whether they are accepted, is otherwise drawn from one length alone.
        """
        ran, place = self._ran[self._size], GRIDS.index(self._best)
        others = [grid for grid in GRIDS[max(1, place - 1) : place + 2] if grid != self._best and grid <= self.most + 1]
        unknown = [g for g in others if ran[g] < ATTEMPTS and self._prices.measured(rows, g - 1) < TRIALS]
        grid = max(unknown) if self._best in ran and unknown else self._best
        ran[grid] += 1
        return grid


def _ends(have: int) -> Action:
    return Action.VERIFY if have else Action.PLAIN

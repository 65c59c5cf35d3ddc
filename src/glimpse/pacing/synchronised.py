"""Drafting and verifying in step: what most batched systems do, and what unsynchronised pacing is compared with."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.pacing.fixed import FixedPacer
from glimpse.pacing.pacer import Action, Decisions


class SynchronisedPacer(FixedPacer):
    """All rows draft together and verify together, as soon as one has drafted `length` tokens (5, as in ASPIRE).

    A row that joins in between verifies with the others, a shorter draft; one without room waits for none of them.
    """

    name = "synchronised"
    DEFAULT = 5

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """See `FixedPacer`; where any row is done, all verify."""
        decisions = super().decide(rows, room)
        drafted = rows.column(rows.rows.draft_len)
        if max(drafted, default=0) < self.most:
            return decisions
        return Decisions([Action.VERIFY] * len(rows), [0] * len(rows))

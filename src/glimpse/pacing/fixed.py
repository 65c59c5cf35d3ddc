"""A constant draft length."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.pacer import Decisions, PaceContext, Pacer, draft_up_to


class FixedPacer(Pacer):
    """Drafts `length` tokens each round, then verifies all of them. 0 decodes plainly."""

    name = "fixed"
    foretells = True
    """What it decides does not depend on what is drafted, so a whole round can be launched at once."""

    DEFAULT = 8

    def __init__(self, length: int = DEFAULT) -> None:
        self.most = length

    @classmethod
    def build(cls, context: PaceContext) -> FixedPacer:
        """With the draft length asked for; 0 for a drafter that never drafts."""
        asked = cls.DEFAULT if context.draft_tokens is None else context.draft_tokens
        return cls(asked if context.can_draft else 0)

    def admit(self, rows: RowView) -> None:
        """Keeps nothing."""

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft until the length is reached or there is no room."""
        return draft_up_to([self.most] * len(rows), rows, room)

    def trim(self, rows: RowView) -> list[int]:
        """All of it."""
        return rows.column(rows.rows.draft_len)

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Learns nothing."""

    def retire(self, rows: RowView) -> None:
        """Keeps nothing."""

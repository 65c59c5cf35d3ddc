"""Draft lengths that follow the last verification: the simplest policy a row can have of its own."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.pacer import Decisions, PaceContext, Pacer, draft_up_to


class FeedbackPacer(Pacer):
    """Each row's draft is one longer after a draft accepted whole, one shorter after any other (the +-1 policy)."""

    name = "feedback"
    foretells = False
    START = 5
    DEFAULT_MOST = 16

    def __init__(self, most: int = DEFAULT_MOST) -> None:
        self.most = most
        self._lengths: dict[int, int] = {}

    @classmethod
    def build(cls, context: PaceContext) -> FeedbackPacer:
        """With the longest draft asked for; 0 for a drafter that never drafts."""
        asked = cls.DEFAULT_MOST if context.draft_tokens is None else context.draft_tokens
        return cls(asked if context.can_draft else 0)

    def admit(self, rows: RowView) -> None:
        """The same start for each request."""
        for slot in rows.slots:
            self._lengths[slot] = min(self.START, self.most)

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft until the row's length is reached or there is no room."""
        return draft_up_to([self._lengths[slot] for slot in rows.slots], rows, room)

    def trim(self, rows: RowView) -> list[int]:
        """All of it."""
        return rows.column(rows.rows.draft_len)

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """One step up or down, never below 1: a row that drafts nothing would never learn."""
        for outcome in outcomes:
            if outcome.drafted:
                step = 1 if outcome.accepted == outcome.drafted else -1
                self._lengths[outcome.slot] = max(1, min(self.most, self._lengths[outcome.slot] + step))

    def retire(self, rows: RowView) -> None:
        """Drops the lengths."""
        for slot in rows.slots:
            self._lengths.pop(slot, None)

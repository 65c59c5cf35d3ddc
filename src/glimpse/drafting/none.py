"""No drafter: plain decoding, the baseline and the fallback."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.drafting.chains import chain
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome


class NoDrafter(Drafter):
    """Drafts nothing, keeps nothing."""

    name = "none"
    drafts = False
    needs_forward = False
    gives_tree = False
    has_law = False
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    importance = 0

    @classmethod
    def build(cls, context: DraftContext) -> NoDrafter:
        """Needs nothing."""
        return cls()

    def admit(self, rows: RowView) -> None:
        """Nothing to keep."""

    def ready(self, rows: RowView) -> list[bool]:
        """Always: the empty draft needs nothing."""
        return [True] * len(rows)

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """Empty drafts."""
        return chain([[] for _ in room], [[] for _ in room])

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Nothing to learn."""

    def retire(self, rows: RowView) -> None:
        """Nothing to free."""

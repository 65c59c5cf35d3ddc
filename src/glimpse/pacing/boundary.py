"""A step that reads everything where a sentence ends (Slow-Fast Inference, arXiv 2603.12038, "slow step").

Inside a sentence the keys that matter stay the same, and change at its end. So rows draft until the newest token ends a
sentence, or 64 steps have passed; then they verify what was drafted, with a selection made anew. With acceptance
`trust` nothing is held back as a draft, and the same step reads the newest token alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.errors import ArgumentError
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer


class BoundaryPacer(Pacer):
    """Every row at its own pace: they need not come to their boundaries together."""

    name = "boundary"
    foretells = False
    reads_drafts = True
    """It looks at the drafted tokens themselves."""
    MOST = 64

    def __init__(self, ends: Callable[[], Collection[int]], most: int = MOST) -> None:
        """`ends` gives the ids that end a sentence; it is called once, when the first row comes."""
        self.most = most
        self._find, self._ends = ends, frozenset[int]()
        self._slow_at: dict[int, int] = {}
        """The length of each row, its newest token included, after its last step that read everything."""

    @classmethod
    def build(cls, context: PaceContext) -> BoundaryPacer:
        """With the most steps asked for. Raises ArgumentError for a drafter whose drafts take no steps."""
        if context.drafts_at_once or not context.can_draft:
            raise ArgumentError(
                "pacer 'boundary' stops a draft as it grows: it goes with 'slowfast', 'sparse' or alike"
            )
        return cls(context.ends, cls.MOST if context.draft_tokens is None else context.draft_tokens)

    def admit(self, rows: RowView) -> None:
        """Each begins at its prompt's end."""
        self._ends = self._ends or frozenset(self._find())
        for slot, length in zip(rows.slots, rows.column(rows.rows.committed_len), strict=True):
            self._slow_at[slot] = length

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft within a sentence, verify at its end."""
        lengths, drafted = rows.column(rows.rows.committed_len), rows.column(rows.rows.draft_len)
        facts = zip(rows.slots, lengths, drafted, room, strict=True)
        actions = [self._decide(rows, slot, length + have, have, left) for slot, length, have, left in facts]
        return Decisions(actions, room)

    def trim(self, rows: RowView) -> list[int]:
        """All of it."""
        return rows.column(rows.rows.draft_len)

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Notes where each row's slow step was; the history does not hold its tokens yet."""
        for outcome in outcomes:
            self._slow_at[outcome.slot] = int(rows.rows.committed_len[outcome.slot]) + len(outcome.tokens)

    def retire(self, rows: RowView) -> None:
        """Drops the places."""
        for slot in rows.slots:
            self._slow_at.pop(slot, None)

    def _decide(self, rows: RowView, slot: int, length: int, drafted: int, room: int) -> Action:
        due = length - self._slow_at[slot] >= self.most or int(rows.rows.tokens[slot, length - 1]) in self._ends
        if room > 0 and not due:
            return Action.DRAFT
        return Action.VERIFY if drafted or due else Action.PLAIN

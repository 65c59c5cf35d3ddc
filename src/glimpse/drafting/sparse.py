"""The target drafts for itself over a recall set (SparseSpec-L, arXiv 2607.27735)."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.attention.plan import RowSpec
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import ImportanceWindow, RecallBudget, RecallSet, recall, select
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import DraftContext, Outcome

WINDOW = 16
"""Queries whose attention weights are summed (W in the paper)."""


@dataclass(slots=True)
class _RowState:
    window: ImportanceWindow
    seen: int = 0
    """Length up to which the window's queries go."""
    recalled: RecallSet | None = None


class SparseDrafter:
    """Draft rows read a RecallSet chosen from the attention weights of the last accepted queries.

    The set is rebuilt once after every verification, when the first draft token of the next round is planned.
    """

    name = "sparse"
    drafts = True
    needs_forward = True
    gives_tree = False
    has_law = True
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    importance = WINDOW

    def __init__(self, pool: PagePool, budget: RecallBudget | None = None) -> None:
        self._pool = pool
        self._budget = budget or RecallBudget()
        self._states: dict[int, _RowState] = {}

    @classmethod
    def build(cls, context: DraftContext) -> SparseDrafter:
        """Over the engine's pool, with the budget asked for."""
        return cls(context.pool, context.budget)

    @property
    def budget(self) -> RecallBudget:
        """How much of the context a draft row reads."""
        return self._budget

    def admit(self, rows: RowView) -> None:
        """An empty window for each request."""
        for slot in rows.slots:
            self._states[slot] = _RowState(self._empty_window())

    def ready(self, rows: RowView) -> list[bool]:
        """True where the window holds the newest verified query."""
        verified = rows.column(rows.rows.verified_len)
        return [self._states[slot].seen == length for slot, length in zip(rows.slots, verified, strict=True)]

    def plan(self, rows: RowView, room: list[int]) -> list[RowSpec]:
        """One token a row: the newest one, committed or drafted."""
        verified, drafted = rows.column(rows.rows.verified_len), rows.column(rows.rows.draft_len)
        return [
            RowSpec(slot, rows.rows.sequence(slot), base + count, 1, recall=self._recalled(rows, slot, base))
            for slot, base, count in zip(rows.slots, verified, drafted, strict=True)
        ]

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Adds the accepted queries' weights to the windows; the sets are stale from now on."""
        for outcome in outcomes:
            state = self._states[outcome.slot]
            state.recalled = None
            if outcome.importance is not None:
                state.window.push(outcome.importance)
                state.seen = outcome.importance.shape[-1]

    def retire(self, rows: RowView) -> None:
        """Drops windows and sets."""
        for slot in rows.slots:
            self._states.pop(slot, None)

    def _empty_window(self) -> ImportanceWindow:
        return ImportanceWindow(self._pool.shape.layers, self._pool.shape.kv_heads, WINDOW, self._pool.device)

    def _recalled(self, rows: RowView, slot: int, base: int) -> RecallSet:
        state = self._states[slot]
        if state.recalled is None:
            positions = select(state.window.scores(base), self._budget)
            state.recalled = recall(self._pool, rows.rows.sequence(slot), positions, base)
        return state.recalled

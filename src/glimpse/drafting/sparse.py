"""The target drafts for itself over a recall set (SparseSpec-L, arXiv 2607.27735)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from glimpse.attention.plan import RowSpec
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import ImportanceWindow, RecallBudget, RecallSet, recall, select
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import DraftContext, Drafter, Outcome

WINDOW = 16
"""Queries whose attention weights are summed (W in the paper)."""


class RowSets(Protocol):
    """Which positions one row's drafts read."""

    def verified(self, weights: Tensor) -> None:
        """The weights [layers, kv_heads, queries, length] of queries that were verified and kept, oldest first."""

    def drafted(self, weights: Tensor) -> None:
        """A draft query's weights [kv_heads, 1, stop] at the refresh layer, where there is one."""

    def positions(self, base: int) -> Tensor:
        """[layers, kv_heads, B] int64: what the next draft row reads of the first `base` positions."""


class WindowSets:
    """What the last accepted queries looked at, layer by layer and head by head."""

    def __init__(self, pool: PagePool, budget: RecallBudget) -> None:
        self.budget = budget
        self.window = ImportanceWindow(pool.shape.layers, pool.shape.kv_heads, WINDOW, pool.device)

    def verified(self, weights: Tensor) -> None:
        """Adds them to the window."""
        self.window.push(weights)

    def drafted(self, weights: Tensor) -> None:
        """Learns nothing of drafts."""

    def positions(self, base: int) -> Tensor:
        """The best by the window's sums."""
        return select(self.window.scores(base), self.budget)


@dataclass(slots=True)
class RowState:
    """What is kept of one row."""

    sets: RowSets
    seen: int = 0
    """Length up to which the verified queries go."""
    recalled: RecallSet | None = None


class SparseDrafter(Drafter):
    """Draft rows read a RecallSet chosen from the attention weights of the last accepted queries.

    The set is rebuilt once after every verification, when the first draft token of the next round is planned.
    """

    name = "sparse"
    drafts = True
    needs_forward = True
    batch_pacer: str | None = "fleet"
    gives_tree = False
    has_law = True
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    importance = WINDOW

    def __init__(self, pool: PagePool, budget: RecallBudget | None = None) -> None:
        self._pool = pool
        self._budget = budget or RecallBudget()
        self._states: dict[int, RowState] = {}

    @classmethod
    def build(cls, context: DraftContext) -> SparseDrafter:
        """Over the engine's pool, with the budget asked for."""
        return cls(context.pool, context.budget)

    @property
    def budget(self) -> RecallBudget:
        """How much of the context a draft row reads."""
        return self._budget

    def admit(self, rows: RowView) -> None:
        """Empty sets for each request."""
        for slot in rows.slots:
            self._states[slot] = RowState(self._new_sets())

    def ready(self, rows: RowView) -> list[bool]:
        """True where the newest verified query has been seen."""
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
        """Adds the accepted queries' weights; the sets are stale from now on."""
        for outcome in outcomes:
            state = self._states[outcome.slot]
            state.recalled = None
            if outcome.importance is not None:
                state.sets.verified(outcome.importance)
                state.seen = outcome.importance.shape[-1]

    def retire(self, rows: RowView) -> None:
        """Drops weights and sets."""
        for slot in rows.slots:
            self._states.pop(slot, None)

    def _new_sets(self) -> RowSets:
        return WindowSets(self._pool, self._budget)

    def _recalled(self, rows: RowView, slot: int, base: int) -> RecallSet:
        state = self._states[slot]
        if state.recalled is None:
            state.recalled = recall(self._pool, rows.rows.sequence(slot), state.sets.positions(base), base)
        return state.recalled

"""Drafts over a selection that stays as it is from one slow step to the next (Slow-Fast Inference, arXiv 2603.12038).

Between two steps that read everything, draft steps read sinks, the recent window and what the Selector chose for each
key/value head at the last of them. With an exact acceptance rule the steps at sentence boundaries verify what was
drafted since (the lossless sibling); with `trust` each draft token is output at once, and those steps read one token.

The window begins where it began at the slow step, and grows until the next one (the paper's slides along: it is up to
64 positions shorter).
"""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget, RecallSet
from glimpse.cache.rows import RowView
from glimpse.cache.selector import Selector
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import DraftContext
from glimpse.drafting.sparse import WINDOW, RowState, SparseDrafter

SINKS, RECENT, SELECTED = 4, 256, 2048
"""Positions of each kind in the paper (3,836 selected for its tables of quality)."""


class SelectorSets:
    """What the Selector makes of the queries that were last verified together: one of a slow step, 16 of a prompt."""

    def __init__(self, pool: PagePool, sequence: Sequence, budget: RecallBudget, selector: Selector) -> None:
        self._pool, self._sequence, self._budget, self._selector = pool, sequence, budget, selector
        self._weights = torch.empty(0)
        self._norms = torch.empty(pool.shape.layers, pool.shape.kv_heads, 0, device=pool.device)

    def verified(self, weights: Tensor) -> None:
        """Keeps the last WINDOW queries' weights, and none from before."""
        self._weights = weights[:, :, -WINDOW:]

    def drafted(self, weights: Tensor) -> None:
        """Learns nothing of drafts."""

    def positions(self, base: int) -> Tensor:
        """See `RowSets`."""
        norms = self._norms_to(base) if self._selector.key_norm else None
        return self._selector.select(self._weights[..., :base], norms, self._budget)

    def _norms_to(self, length: int) -> Tensor:
        """[layers, kv_heads, length]: the keys' norms; those of positions seen before are kept, as the keys are."""
        have = self._norms.shape[-1]
        if length > have:
            slots = self._sequence.slots_of(torch.arange(have, length, device=self._pool.device))
            self._norms = torch.cat([self._norms, self._pool.keys[:, :, slots].float().norm(dim=-1)], -1)
        return self._norms[..., :length]


class SlowFastDrafter(SparseDrafter):
    """`sparse` with the Selector's sets, each of which holds until the next step that reads everything."""

    name = "slowfast"
    batch_pacer = None
    usual_pacer = "boundary"
    usual_budget = {"sinks": SINKS, "recent": RECENT, "floor": SINKS + SELECTED + RECENT}  # noqa: RUF012
    scores = torch.float32

    def __init__(self, pool: PagePool, budget: RecallBudget | None = None, selector: Selector | None = None) -> None:
        super().__init__(pool, budget or RecallBudget(**self.usual_budget))
        self._selector = selector or Selector()

    @classmethod
    def build(cls, context: DraftContext) -> SlowFastDrafter:
        """Over the engine's pool, with the budget asked for."""
        return cls(context.pool, context.budget)

    @property
    def settings(self) -> dict[str, object]:
        """What is worth reporting beyond the budget."""
        return {"recent": self.budget.recent}

    @property
    def selector(self) -> Selector:
        """What chooses the sets."""
        return self._selector

    def admit(self, rows: RowView) -> None:
        """Empty sets for each request."""
        for slot in rows.slots:
            sets = SelectorSets(self._pool, rows.rows.sequence(slot), self._budget, self._selector)
            self._states[slot] = RowState(sets)

    def ready(self, rows: RowView) -> list[bool]:
        """True once a query was verified: what came behind the last one is read whole."""
        return [self._states[slot].seen > 0 for slot in rows.slots]

    def _recalled(self, rows: RowView, slot: int, base: int) -> RecallSet:
        """The set of the last slow step, whatever was committed since."""
        return super()._recalled(rows, slot, self._states[slot].seen)

"""A refresh layer inside the draft (ASPIRE, arXiv 2609.17943, "intra-draft refresh layer").

At one layer draft rows read everything; what they look at there chooses what the next draft step reads at all layers.
Two ways from one layer's weights to all layers' sets:

* `pages`, the paper's: whole pages, one set for all layers and heads, from that layer alone. A token's score is its
  largest weight over the heads (here over the key/value heads' sums), a page's the sum over its tokens; a round begins
  with the mean of the first and the last verified query's.
* `heads`: every layer and head keeps the scores that its own verified queries gave (`sparse`), and adds the fresh
  weights of the refresh layer's heads, each as far as it has looked at the same positions as that head over the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from glimpse.attention.plan import Refresh, RowSpec
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget, select, select_pages
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import DraftContext
from glimpse.drafting.sparse import RowSets, RowState, SparseDrafter, WindowSets
from glimpse.errors import ArgumentError

DEFAULT_SETS = "heads"
DEFAULT_LAYER = 0.75
"""The refresh layer as a share of the layers (docs/pacing.md)."""
GAIN = 1.0
"""How much a fresh query counts against the mean of the window's, where it agrees with it wholly."""


class PageSets:
    """One set of whole pages for all layers and heads, from the refresh layer."""

    def __init__(self, pool: PagePool, budget: RecallBudget, layer: int) -> None:
        self.budget, self._layer = budget, layer
        self._sides = pool.shape.layers, pool.shape.kv_heads
        self._scores = torch.empty(0)

    def verified(self, weights: Tensor) -> None:
        """Keeps the mean of the first and the last query's token scores."""
        ends = weights[self._layer][:, [0, -1]].float()
        self._scores = ends.amax(0).mean(0)

    def drafted(self, weights: Tensor) -> None:
        """Keeps the token scores of a draft query's weights [kv_heads, 1, stop]."""
        self._scores = weights.float().amax(0)[-1]

    def positions(self, base: int) -> Tensor:
        """See `RowSets`."""
        return select_pages(self._scores[:base], self.budget).expand(*self._sides, -1)


class HeadSets(WindowSets):
    """Each layer's and head's own set, with what the refresh layer looks at now where that head looks at the same."""

    def __init__(self, pool: PagePool, budget: RecallBudget, layer: int) -> None:
        super().__init__(pool, budget)
        self._layer = layer
        self._fresh: Tensor | None = None
        self._own: Tensor | None = None

    def verified(self, weights: Tensor) -> None:
        """See `RowSets`."""
        super().verified(weights)
        self._fresh = self._own = None

    def drafted(self, weights: Tensor) -> None:
        """Keeps a draft query's weights [kv_heads, 1, stop]."""
        self._fresh = weights.float()[:, -1]

    def positions(self, base: int) -> Tensor:
        """See `RowSets`."""
        if self._own is None:
            self._own = self.window.scores(base) / max(1, self.window.queries)
            self._agreement = agreement(self._own, self._layer)
        if self._fresh is None:
            return select(self._own, self.budget)
        return select(self._own + GAIN * (self._agreement @ self._fresh[:, :base]), self.budget)


def agreement(scores: Tensor, layer: int) -> Tensor:
    """[layers, kv_heads, kv_heads]: cosines of scores [layers, kv_heads, length] with those of `layer`'s heads."""
    unit = torch.nn.functional.normalize(scores, dim=-1)
    return unit @ unit[layer].T


SETS: Mapping[str, Callable[[PagePool, RecallBudget, int], RowSets]] = {"heads": HeadSets, "pages": PageSets}
"""Ways of choosing sets, by the name that `refresh_sets` has."""


def check_sets(name: str) -> None:
    """Raises ArgumentError, listing the known ones, where no sets have this name."""
    if name not in SETS:
        raise ArgumentError(f"refresh_sets: unknown name {name!r}; known: {', '.join(sorted(SETS))}")


class RefreshDrafter(SparseDrafter):
    """`sparse` whose sets are chosen anew after every draft token, by what it looks at in one layer."""

    name = "refresh"
    batch_pacer = None
    refreshes = True

    def __init__(
        self,
        pool: PagePool,
        budget: RecallBudget | None = None,
        sets: str = DEFAULT_SETS,
        layer: int | None = None,
    ) -> None:
        """`layer` from 0; None: DEFAULT_LAYER. Raises ArgumentError for unknown sets or a layer that is not there."""
        super().__init__(pool, budget)
        layers = pool.shape.layers
        self.layer = int(DEFAULT_LAYER * layers) if layer is None else layer
        if not 0 <= self.layer < layers:
            raise ArgumentError(f"refresh_layer must be from 0 to {layers - 1} (the model's last), not {self.layer}")
        check_sets(sets)
        self.sets = sets

    @classmethod
    def build(cls, context: DraftContext) -> RefreshDrafter:
        """Over the engine's pool, with the budget, sets and layer asked for."""
        return cls(context.pool, context.budget, context.refresh_sets or DEFAULT_SETS, context.refresh_layer)

    @property
    def settings(self) -> dict[str, object]:
        """What is worth reporting beyond the budget."""
        return {"refresh_sets": self.sets, "refresh_layer": self.layer}

    def plan(self, rows: RowView, room: list[int]) -> list[RowSpec]:
        """One token a row, which reads everything at the refresh layer."""
        return [
            replace(spec, refresh=Refresh(self.layer, partial(self._heard, self._states[spec.slot])))
            for spec in super().plan(rows, room)
        ]

    def _new_sets(self) -> RowSets:
        return SETS[self.sets](self._pool, self._budget, self.layer)

    @staticmethod
    def _heard(state: RowState, weights: Tensor) -> None:
        state.sets.drafted(weights)
        state.recalled = None

"""What a draft row reads: sinks, selected and recent positions, and everything after them.

SparseSpec-L (arXiv 2607.27735), "sparse index": the score of a cached position is the attention weight it got from the
last W = 16 queries, per layer and head. The paper leaves open how grouped-query heads share a set; here the heads of a
group add their weights, so that each key/value head has one set. Nothing is evicted: the dense cache stays, and a
position dropped in one round can come back in the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glimpse.cache.pool import PagePool
from glimpse.cache.sequence import Sequence
from glimpse.errors import ArgumentError

PAGE = 16
"""Positions of a page that is read whole, where sets are of pages."""
RECENT_PAGES = 8
"""The last pages are always read, where sets are of pages."""


@dataclass(frozen=True, slots=True)
class RecallBudget:
    """How many positions a draft row reads: `share` of the context, at least `floor`, with sinks and recent ones."""

    share: float = 0.1
    floor: int = 256
    sinks: int = 4
    recent: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ArgumentError(f"budget {self.share} is not a share of the context; give more than 0 and at most 1")
        if min(self.floor, self.sinks, self.recent) < 0:
            raise ArgumentError("floor, sinks and recent of a recall budget cannot be negative")

    def positions(self, length: int) -> int:
        """Positions read of a context of `length`."""
        return min(length, max(self.floor, self.sinks + self.recent, math.ceil(self.share * length)))

    def positions_of(self, lengths: Tensor) -> Tensor:
        """[R] int32: `positions` of each of `lengths` [R], computed where they are."""
        wanted = (lengths.double() * self.share).ceil().clamp_min(max(self.floor, self.sinks + self.recent))
        return torch.minimum(wanted, lengths).to(torch.int32)


@dataclass(frozen=True, slots=True)
class RecallSet:
    """The positions a draft row reads of the first `base` ones, per layer and head; from `base` on it reads everything.

    `positions` is [layers, kv_heads, B] int64, sorted and unique along B. `keys` and `values` [layers, kv_heads, B,
    head_dim] are copies of what the pool holds there: on a CPU one copy a round costs less than scattered reads in
    every draft step (docs/performance.md).
    """

    positions: Tensor
    base: int
    keys: Tensor
    values: Tensor

    def __len__(self) -> int:
        return self.positions.shape[-1]


class ImportanceWindow:
    """The attention weights that the last `window` accepted queries of one request gave to every position.

    Kept one by one, because a round may verify fewer than `window` queries and rejected ones must not count.
    """

    def __init__(self, layers: int, kv_heads: int, window: int = 16, device: torch.device | str = "cpu") -> None:
        self.window = window
        self._weights = torch.zeros(layers, kv_heads, window, 0, dtype=torch.float16, device=device)
        self._filled = 0
        self._next = 0

    @property
    def queries(self) -> int:
        """How many queries the window holds, at most `window`."""
        return self._filled

    def push(self, weights: Tensor) -> None:
        """Adds the weights [layers, kv_heads, queries, length] of accepted queries, oldest first."""
        weights = weights[:, :, -self.window :]
        self._grow(weights.shape[-1])
        count, length = weights.shape[2], weights.shape[3]
        places = [(self._next + i) % self.window for i in range(count)]
        self._weights[:, :, places, :length] = weights.to(self._weights.dtype)
        self._weights[:, :, places, length:] = 0
        self._next = (self._next + count) % self.window
        self._filled = min(self.window, self._filled + count)

    def scores(self, length: int) -> Tensor:
        """[layers, kv_heads, length] float32: each position's weight, summed over the window."""
        total = torch.zeros(*self._weights.shape[:2], length, device=self._weights.device)
        # Row by row: torch's sum of float16 over an inner dimension takes five times as long on a CPU.
        for query in range(self._filled):
            total += self._weights[:, :, query, :length]
        return total

    def _grow(self, length: int) -> None:
        have = self._weights.shape[-1]
        if length > have:
            room = max(length, have + have // 8) + 128
            self._weights = torch.nn.functional.pad(self._weights, (0, room - have))


def select(scores: Tensor, budget: RecallBudget) -> Tensor:
    """[layers, kv_heads, B] int64: the positions to read, sorted, for scores [layers, kv_heads, length].

    Sinks and recent positions always; the rest of the budget by score. A budget as long as the context gives all.
    """
    length = scores.shape[-1]
    total = budget.positions(length)
    if total == length:
        return torch.arange(length, device=scores.device).expand(*scores.shape[:2], length)
    first, last = budget.sinks, length - budget.recent
    chosen = _top(scores[..., first:last], total - budget.sinks - budget.recent) + first
    fixed = torch.cat([torch.arange(first), torch.arange(last, length)]).to(scores.device)
    return torch.cat([fixed.expand(*scores.shape[:2], -1), chosen], -1).sort(-1).values


def select_pages(scores: Tensor, budget: RecallBudget) -> Tensor:
    """[B] int64: whole pages of positions, sorted, for scores [length] (ASPIRE, arXiv 2609.17943: "page score").

    The last RECENT_PAGES pages and, up to the budget, those whose positions' scores sum to most. One set for all layers
    and heads; there are no sinks but those that score.
    """
    length = scores.shape[-1]
    pages = math.ceil(length / PAGE)
    total = math.ceil(budget.positions(length) / PAGE)
    last = min(RECENT_PAGES, total)
    by_page = torch.nn.functional.pad(scores, (0, pages * PAGE - length)).view(pages, PAGE).sum(-1)
    best = by_page[: pages - last].topk(total - last, sorted=False).indices
    kept = torch.cat([best, torch.arange(pages - last, pages, device=scores.device)]).sort().values
    positions = (kept[:, None] * PAGE + torch.arange(PAGE, device=scores.device)).flatten()
    return positions[positions < length]


def _top(scores: Tensor, count: int) -> Tensor:
    """[..., count] int64: the places of the `count` largest entries along the last dimension, in no order."""
    if scores.device.type != "cpu":
        return scores.topk(count, dim=-1, sorted=False).indices
    # numpy's partition is about five times as fast here as torch's topk.
    rest = scores.shape[-1] - count
    places = np.argpartition(scores.numpy(), min(rest, scores.shape[-1] - 1), axis=-1)
    return torch.from_numpy(places[..., rest:])


def recall(pool: PagePool, sequence: Sequence, positions: Tensor, base: int) -> RecallSet:
    """The set with copies of its keys and values; `positions` as `select` gives them, all below `base`."""
    layers, heads, slots, dim = pool.keys.shape
    # Whole vectors of a flat view: a gather would read one index for every number.
    starts = torch.arange(layers * heads, device=positions.device).view(layers, heads, 1) * slots
    places = (starts + sequence.slots_of(positions)).flatten()
    keys, values = (
        held.view(-1, dim).index_select(0, places).view(*positions.shape, dim) for held in (pool.keys, pool.values)
    )
    return RecallSet(positions, base, keys, values)

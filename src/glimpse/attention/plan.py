"""From rows of a ragged batch to what attention needs to know of them, once per forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glimpse.cache.recall import RecallSet
from glimpse.cache.sequence import Sequence
from glimpse.model.late import LatePath


@dataclass(frozen=True, slots=True)
class MaskGroups:
    """Mask tokens that ride on a row (FlexDraft, arXiv 2605.20022): `size` of them behind each of some of its tokens.

    They enter the decoder late (`path`). A group reads what its token reads, and itself; its keys and values are never
    kept, and nobody else reads them.
    """

    path: LatePath
    size: int
    behind: tuple[int, ...]
    """For each group the row's own token, from 0 on, that it stands behind."""

    @property
    def count(self) -> int:
        """Mask tokens of the row."""
        return self.size * len(self.behind)


@dataclass(frozen=True, slots=True)
class Refresh:
    """A layer at which a draft row reads everything, whatever its set says (ASPIRE's intra-draft refresh layer)."""

    layer: int
    hear: Callable[[Tensor], None]
    """Told of the row's attention weights there, [kv_heads, count, stop], summed over the heads of each group."""


@dataclass(frozen=True, slots=True)
class RowSpec:
    """What one row feeds into the next forward: positions `start` up to `start + count` of its sequence.

    `recall`: None reads everything before; a set reads only that (draft rows).
    `parents`: for a draft tree, the parent of each of the last len(parents) tokens, counted among them (-1: the token
    before the tree); None for a chain.
    `outputs`: logits are wanted of that many trailing tokens. `importance`: attention weights are wanted of that many
    trailing queries; only for rows that read everything. `refresh`: only for rows with a set. `masks`: what rides on
    the row, a chain that reads everything. `hidden`: the hidden states of all its tokens are wanted.
    """

    slot: int
    sequence: Sequence
    start: int
    count: int
    recall: RecallSet | None = None
    parents: Tensor | None = None
    outputs: int = 1
    importance: int = 0
    refresh: Refresh | None = None
    masks: MaskGroups | None = None
    hidden: bool = False

    @property
    def stop(self) -> int:
        """The length of the sequence after this forward."""
        return self.start + self.count

    @property
    def kv_read(self) -> int:
        """Positions whose keys and values the row reads."""
        return self.stop if self.recall is None else len(self.recall) + self.stop - self.recall.base


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A row with its place in the batch: tokens `begin` up to `end`, the runs of slots it reads in place, its mask."""

    spec: RowSpec
    begin: int
    end: int
    extents: list[tuple[int, int]]
    mask: Tensor | None
    """[count, count] bool among the row's own tokens (True: may see); None for a single token, which sees all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A ragged batch, ready for attention. N tokens in all."""

    rows: list[PlannedRow]
    positions: Tensor
    """[N] int64: the rotary position of each token (depth in a tree, not place in the cache)."""
    slots: Tensor
    """[N] int64: where each token's keys and values go."""
    outputs: Tensor
    """Indices into the N tokens whose logits are wanted, row after row."""


def plan_batch(specs: list[RowSpec], device: torch.device | str = "cpu") -> Plan:
    """Lays the rows end to end, for a cache on `device`. Every sequence must have room for its `stop` positions."""
    rows, positions, slots, outputs, begin = [], [], [], [], 0
    for spec in specs:
        end = begin + spec.count
        read_from = 0 if spec.recall is None else spec.recall.base
        extents = spec.sequence.extents(read_from, spec.stop)
        mask, own_positions = _own(spec)
        rows.append(PlannedRow(spec, begin, end, extents, None if mask is None else mask.to(device)))
        positions.append(own_positions)
        slots.append(spec.sequence.slots(spec.start, spec.stop))
        outputs.append(torch.arange(end - spec.outputs, end))
        begin = end
    return Plan(rows, *(torch.cat(parts).to(device) for parts in (positions, slots, outputs)))


def ancestors(parents: Tensor) -> Tensor:
    """[n, n] bool: entry (i, j) says whether node j is node i or one of its ancestors. Parents come before children."""
    seen = np.eye(len(parents), dtype=bool)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            seen[node] |= seen[parent]
    return torch.from_numpy(seen)


def _own(spec: RowSpec) -> tuple[Tensor | None, Tensor]:
    """Which of the row's own tokens each of them may see, and the rotary positions of all."""
    positions = torch.arange(spec.start, spec.stop)
    if spec.count == 1:
        return None, positions
    mask = torch.ones(spec.count, spec.count, dtype=torch.bool).tril()
    if spec.parents is not None:
        first = spec.count - len(spec.parents)
        mask[first:, first:] = seen = ancestors(spec.parents)
        # Its ancestors and itself: a node's depth.
        positions[first:] = spec.start + first - 1 + seen.sum(-1)
    return mask, positions

"""Groups of mask tokens beside the text: where they stand, what they may read, and their attention in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glimpse.attention.plan import MaskGroups, Plan, PlannedRow
from glimpse.attention.reference import attend_row, pieces_of
from glimpse.cache.pool import PagePool
from glimpse.model.late import LatePath


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The M mask tokens of a batch, row after row, group after group."""

    path: LatePath
    rows: list[PlannedRow]
    """Places among the M, and the row's mask [its mask tokens, its own tokens + its mask tokens]."""
    positions: Tensor
    """[M] int64: a group goes on counting from the token that it stands behind."""


def plan_groups(plan: Plan) -> GroupPlan | None:
    """The mask tokens that ride on the rows of a plan; None where there are none."""
    rows, positions, begin, path = list[PlannedRow](), list[Tensor](), 0, None
    for row in plan.rows:
        masks = row.spec.masks
        if masks is not None:
            path, end = masks.path, begin + masks.count
            mask = group_mask(row.spec.count, masks).to(plan.positions.device)
            rows.append(replace(row, begin=begin, end=end, mask=mask))
            positions.append(row.spec.start + places_behind(masks.behind, masks.size))
            begin = end
    return None if path is None else GroupPlan(path, rows, torch.cat(positions).to(plan.positions.device))


def places_behind(behind: Sequence[int], size: int) -> Tensor:
    """[groups * size] int64: the places of the masks of each group, counted as those of the tokens `behind`."""
    return (torch.tensor(behind)[:, None] + torch.arange(1, size + 1)).flatten()


def group_mask(count: int, masks: MaskGroups) -> Tensor:
    """[M, count + M] bool: which of a row's `count` tokens and of its own M mask tokens each mask token reads.

    The tokens up to the one that its group stands behind, and the whole group, later ones included.
    """
    group = torch.arange(len(masks.behind)).repeat_interleave(masks.size)
    text = torch.arange(count) <= torch.tensor(masks.behind)[group][:, None]
    return torch.cat([text, group[:, None] == group], 1)


def attend_groups(q: Tensor, k: Tensor, v: Tensor, pool: PagePool, groups: GroupPlan, layer: int) -> Tensor:
    """Attention of one layer for mask tokens, after the text's keys and values of that layer were written.

    q [M, heads, head_dim], k and v [M, kv_heads, head_dim], rotated; the result as q. They leave the cache as it is.
    """
    out = torch.empty_like(q)
    for row in groups.rows:
        own = slice(row.begin, row.end)
        keys, values = pieces_of(pool, row, layer)
        keys, values = [*keys, k[own].transpose(0, 1)], [*values, v[own].transpose(0, 1)]
        out[own] = attend_row(q[own], keys, values, row, 0)[0]
    return out

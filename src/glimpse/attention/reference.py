"""Attention in plain torch: the definition of what every faster kernel must compute.

Heads that share a key/value head are folded into the rows of one matrix product, so keys and values are read once and
never repeated. Few queries: scores are formed and kept for the importance. Many (prefill): torch's fused attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.plan import Plan, PlannedRow
from glimpse.cache.pool import PagePool

FEW_QUERIES = 32
"""Up to here forming the scores is at least as fast as the fused kernel on a CPU (docs/performance.md)."""


def attend(q: Tensor, pool: PagePool, plan: Plan, layer: int) -> tuple[Tensor, list[Tensor | None]]:
    """Attention of one layer for a ragged batch, after the layer's own keys and values were written to the pool.

    q is [N, heads, head_dim], rotated; the result likewise. Beside it, per row, None or the attention weights
    [kv_heads, queries, stop] of its last `spec.importance` queries, summed over the heads of each group; at a row's
    refresh layer those of all its queries.
    """
    out = torch.empty_like(q)
    importance: list[Tensor | None] = []
    for row in plan.rows:
        refreshes = row.spec.refresh is not None and row.spec.refresh.layer == layer
        keys, values = _whole(pool, row, layer) if refreshes else pieces_of(pool, row, layer)
        wanted = row.spec.count if refreshes else row.spec.importance
        mixed, weights = attend_row(q[row.begin : row.end], keys, values, row, wanted)
        out[row.begin : row.end] = mixed
        importance.append(weights)
    return out, importance


def pieces_of(pool: PagePool, row: PlannedRow, layer: int) -> tuple[list[Tensor], list[Tensor]]:
    """The pieces [kv_heads, *, head_dim] of keys and of values that the row reads, in order of position."""
    keys = [pool.keys[layer, :, slot : slot + count] for slot, count in row.extents]
    values = [pool.values[layer, :, slot : slot + count] for slot, count in row.extents]
    if row.spec.recall is not None:
        keys.insert(0, row.spec.recall.keys[layer])
        values.insert(0, row.spec.recall.values[layer])
    return keys, values


def _whole(pool: PagePool, row: PlannedRow, layer: int) -> tuple[list[Tensor], list[Tensor]]:
    """The pieces of all that comes before the row's end, whatever its set says."""
    extents = row.spec.sequence.extents(0, row.spec.stop)
    keys, values = (
        [held[layer, :, slot : slot + count] for slot, count in extents] for held in (pool.keys, pool.values)
    )
    return keys, values


def attend_row(
    q: Tensor, keys: list[Tensor], values: list[Tensor], row: PlannedRow, wanted: int
) -> tuple[Tensor, Tensor | None]:
    """One row: q [n, heads, head_dim] over the pieces; ([n, heads, head_dim], weights of the last `wanted` queries)."""
    kv_heads, head_dim = keys[0].shape[0], q.shape[-1]
    grouped = (q * head_dim**-0.5).unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)
    if len(q) <= FEW_QUERIES:
        weights = _weights(grouped, keys, row.mask)
        mixed = _mix(weights.flatten(1, 2).to(q.dtype), values).view_as(grouped)
        importance = weights[:, :, weights.shape[2] - wanted :].sum(1) if wanted else None
    else:
        keys, values = _joined(keys), _joined(values)
        mixed = _fused(grouped, keys[0], values[0], row.mask)
        importance = _last_weights(grouped, keys, row.mask, wanted) if wanted else None
    return mixed.permute(2, 0, 1, 3).flatten(1, 2), importance


def _weights(q: Tensor, keys: list[Tensor], mask: Tensor | None) -> Tensor:
    """Softmax weights [kv_heads, group, n, length] of scaled queries q [kv_heads, group, n, head_dim]."""
    folded = q.flatten(1, 2)
    pieces = [_scores(folded, piece) for piece in keys]
    scores = (pieces[0] if len(pieces) == 1 else torch.cat(pieces, -1)).view(*q.shape[:3], -1)
    if mask is not None:
        scores[..., scores.shape[-1] - mask.shape[-1] :].masked_fill_(~mask, -torch.inf)
    return torch.softmax(scores, -1)


def _scores(q: Tensor, keys: Tensor) -> Tensor:
    """q [kv_heads, rows, head_dim] times keys [kv_heads, length, head_dim]; on a GPU in float32, as its kernels do."""
    if q.is_cuda and q.dtype != torch.float32:
        return torch.bmm(q, keys.transpose(1, 2), out_dtype=torch.float32)
    return torch.bmm(q, keys.transpose(1, 2))


def _mix(weights: Tensor, values: list[Tensor]) -> Tensor:
    """Weights [kv_heads, rows, length] times the pieces of values: [kv_heads, rows, head_dim]."""
    mixed, begin = None, 0
    for piece in values:
        part = torch.bmm(weights[..., begin : begin + piece.shape[1]], piece)
        mixed = part if mixed is None else mixed.add_(part)
        begin += piece.shape[1]
    assert mixed is not None
    return mixed


def _joined(pieces: list[Tensor]) -> list[Tensor]:
    return pieces if len(pieces) == 1 else [torch.cat(pieces, 1)]


def _fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Fused attention; the group is a batch of heads that read the same keys through a stride of zero."""
    group = q.shape[1]
    full = None
    if mask is not None:
        full = torch.ones(mask.shape[0], keys.shape[1], dtype=torch.bool, device=mask.device)
        full[:, keys.shape[1] - mask.shape[1] :] = mask
    keys, values = (x[:, None].expand(-1, group, -1, -1) for x in (keys, values))
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=full, scale=1.0)


def _last_weights(q: Tensor, keys: list[Tensor], mask: Tensor | None, wanted: int) -> Tensor:
    """The weights [kv_heads, wanted, length] of the last queries only, summed over each group."""
    tail = None if mask is None else mask[-wanted:]
    return _weights(q[:, :, -wanted:], keys, tail).sum(1)

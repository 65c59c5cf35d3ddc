"""What the attention kernels compute, in plain torch, row by row: slow, and meant to be read."""

from __future__ import annotations

import torch
from torch import Tensor


def slots_of(table: Tensor, positions: Tensor, page_size: int) -> Tensor:
    """The int64 slots of `positions` of the row whose page table is `table`."""
    return table[positions // page_size].long() * page_size + positions % page_size


def own_visibility(count: int, tree: Tensor | None) -> Tensor:
    """[count, count] bool: which of a row's own tokens each of them sees; `tree` [queries] int64 bitmasks or None."""
    ids = torch.arange(count, device=None if tree is None else tree.device)
    if tree is None:
        return ids[:, None] >= ids
    return ((tree[:count, None] >> ids) & 1).bool()


def scores_of(q: Tensor, keys: Tensor) -> Tensor:
    """[n, heads, length] of q [n, heads, dim] and keys [kv_heads, length, dim], scaled by 1 / sqrt(dim)."""
    repeated = keys.to(q.dtype).repeat_interleave(q.shape[1] // keys.shape[0], 0)
    scores = torch.einsum("nhd,hld->nhl", q, repeated)
    return scores * float(q.shape[-1] ** -0.5)


def mixed_by(scores: Tensor, values: Tensor) -> Tensor:
    """softmax(scores [n, heads, length]) times values [kv_heads, length, dim]."""
    repeated = values.to(scores.dtype).repeat_interleave(scores.shape[1] // values.shape[0], 0)
    return torch.einsum("nhl,hld->nhd", torch.softmax(scores, -1), repeated)


def paged(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    lengths: Tensor,
    page_size: int,
    *,
    counts: Tensor | None = None,
    tree: Tensor | None = None,
    reference: Tensor | None = None,
    weights: Tensor | None = None,
    counted: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(out, importance [rows, kv_heads, max_len], log-sum-exp means [rows, heads]); see `Paged` and `Importance`.

    Of importance and means, the first `counted` queries count (None: all). Computed in the dtype of `q`: give float32
    or float64. Importance is 0 where a kernel would write nothing.
    """
    rows, kv_heads = lengths.shape[0], keys.shape[0]
    queries, group = q.shape[0] // rows, q.shape[1] // kv_heads
    out = torch.zeros_like(q)
    importance = q.new_zeros(rows, kv_heads, table.shape[1] * page_size)
    means = torch.zeros_like(q[:rows, :, 0]) if reference is None else reference.to(q.dtype).clone()
    for row, length in enumerate(lengths.tolist()):
        count = queries if counts is None else int(counts[row])
        if length == 0 or count == 0:
            continue
        base, begin = length - count, row * queries
        slots = slots_of(table[row], torch.arange(length, device=q.device), page_size)
        scores = scores_of(q[begin : begin + count], keys[:, slots])
        hidden = ~own_visibility(count, None if tree is None else tree[row]).to(q.device)
        scores[:, :, base:].masked_fill_(hidden[:, None], -torch.inf)
        out[begin : begin + count] = mixed_by(scores, values[:, slots])
        share = q.new_ones(count) if weights is None else weights[row, :count].to(q.dtype)
        terms = torch.exp(scores[..., :base] - means[row][:, None]) * share[:, None, None]
        importance[row, :, :base] = terms[:counted].sum(0).view(kv_heads, group, base).sum(1)
        means[row] = torch.logsumexp(scores[:counted], -1).mean(0)
    return out, importance, means


def recalled(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    selected: Tensor,
    counts: Tensor,
    bases: Tensor,
    lengths: Tensor,
    table: Tensor,
    page_size: int,
) -> Tensor:
    """[rows, heads, dim]; see `Recalled`. Computed in the dtype of `q`."""
    out = torch.zeros_like(q)
    for row, (count, base, length) in enumerate(zip(counts.tolist(), bases.tolist(), lengths.tolist(), strict=True)):
        if length == 0:
            continue
        tail = slots_of(table[row], torch.arange(base, length, device=q.device), page_size)
        slots = torch.cat([selected[row, :, :count].long(), tail.expand(keys.shape[0], -1)], 1)
        index = slots[..., None].expand(-1, -1, keys.shape[-1])
        out[row] = mixed_by(scores_of(q[row : row + 1], keys.gather(1, index)), values.gather(1, index))[0]
    return out


def selection(scores: Tensor, length: int, budget: int, sinks: int, recent: int) -> Tensor:
    """[B] int64 positions, sorted: what one segment with `scores` [length] selects; see `Selection`."""
    if length <= budget:
        return torch.arange(length, device=scores.device)
    order = torch.sort(scores[sinks : length - recent], descending=True, stable=True).indices + sinks
    ids = torch.arange(length, device=scores.device)
    chosen = torch.cat([ids[:sinks], order[: budget - sinks - recent], ids[length - recent :]])
    return chosen.sort().values

"""Draft trees of a step: what each node sees and where it stands, the path the picks accept, its place in the cache.

A row feeds its last committed token and the nodes of its draft: query 0 is that token, query i node i - 1. A row has at
most 64 queries, one bit each. `glimpse.attention.plan.ancestors`, `glimpse.acceptance.exact.walk` and
`glimpse.cache.compaction.keep_path` say the same on the host.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.rows import Fed, Verdict
from glimpse.attention.triton.sizes import padded, stepped

QUERIES = 64
"""The most query tokens of a row."""


@triton.jit
def _at(values: tl.tensor, places: tl.tensor, place: tl.tensor) -> tl.tensor:
    """The one of `values` [PAD] at `place`."""
    return tl.sum(tl.where(places == place, values, 0), 0)


@triton.jit(do_not_specialize=["queries", "parents_stride"])
def _branch_kernel(
    parents: tl.tensor,
    counts: tl.tensor,
    firsts: tl.tensor,
    positions: tl.tensor,
    seen: tl.tensor,
    queries: tl.tensor,
    parents_stride: tl.tensor,
    PAD: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    place = tl.arange(0, PAD)
    count = tl.load(counts + row)
    positions += tl.load(firsts + row)
    inside = place < count
    above = tl.load(parents + row * parents_stride + place - 1, mask=inside & (place > 0), other=-1) + 1
    bits, depth = tl.full((PAD,), 1, tl.int64) << place.to(tl.int64), tl.zeros((PAD,), tl.int32)
    for query in range(1, count):
        parent = _at(above, place, query)
        bits = tl.where(place == query, bits | _at(bits, place, parent), bits)
        depth = tl.where(place == query, _at(depth, place, parent) + 1, depth)
    root = tl.load(positions, mask=count > 0, other=0)
    tl.store(positions + place, root + depth, mask=inside & (place > 0))
    tl.store(seen + row * queries + place, bits, mask=place < queries)


def branch(fed: Fed, ragged: Ragged, parents: Tensor, queries: int) -> Tensor:
    """[B, queries] int64: a bit for each of the row's own queries that each of them sees, itself and its ancestors.

    `parents` [B, n] int32, n >= queries - 1: each node's parent among the row's nodes (-1: the last committed token),
    parents first. The nodes' `fed.positions` become those of their depths. A row's tokens are where `ragged` says, at
    most `queries` of them, as many as `fed.counts` says.
    """
    rows = parents.shape[0]
    seen = torch.empty(rows, queries, dtype=torch.int64, device=parents.device)
    _branch_kernel[(rows,)](
        parents, fed.counts, ragged.firsts, fed.positions, seen, queries, parents.stride(0),
        PAD=stepped(queries), num_warps=1,
    )  # fmt: skip
    return seen


@triton.jit(do_not_specialize=["queries", "tokens_stride", "committed_stride", "parents_stride", "paths_stride"])
def _commit_kernel(
    tokens: tl.tensor,
    ids: tl.tensor,
    parents: tl.tensor,
    picks: tl.tensor,
    entropies: tl.tensor,
    own: tl.tensor,
    firsts: tl.tensor,
    length: tl.tensor,
    drafted: tl.tensor,
    active: tl.tensor,
    limit: tl.tensor,
    counts: tl.tensor,
    committed: tl.tensor,
    judged: tl.tensor,
    broken: tl.tensor,
    paths: tl.tensor,
    queries: tl.tensor,
    tokens_stride: tl.tensor,
    committed_stride: tl.tensor,
    parents_stride: tl.tensor,
    paths_stride: tl.tensor,
    PAD: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    place = tl.arange(0, PAD)
    old, fed, first = tl.load(length + row), tl.load(own + row), tl.load(firsts + row)
    alive = tl.load(active + row) * (fed > 0).to(tl.int32)
    node = (place > 0) & (place < fed)
    above = tl.load(parents + row * parents_stride + place - 1, mask=node, other=-1) + 1
    drafts = tl.load(ids + first + place, mask=node, other=-2)
    chosen = tl.load(picks + first + place, mask=place < fed, other=-1)
    # Parents come first, so one pass finds the whole path.
    path = tl.zeros((PAD,), tl.int32)
    at, count = alive * 0, alive * 0 + 1
    for query in range(1, fed):
        agrees = _at(drafts, place, query) == _at(chosen, place, at)
        hit = agrees & (_at(above, place, query) == at)
        path = tl.where(hit & (place == count), query, path)
        at = tl.where(hit, query, at)
        count += hit.to(tl.int32)
    count *= alive
    kept = place < count
    # Logits that are not finite have such an entropy. Behind a rejected token plain decoding would not have met them.
    entropy = tl.load(entropies + first + path, mask=kept, other=0.0)
    sound = tl.min((entropy - entropy == 0).to(tl.int32), 0)
    count *= sound
    kept = place < count
    pick = tl.load(picks + first + path, mask=kept, other=-1)
    tl.store(tokens + row.to(tl.int64) * tokens_stride + old + place, pick, mask=kept & (old + place < tokens_stride))
    tl.store(committed + row * committed_stride + place, pick, mask=kept)
    tl.store(paths + row * paths_stride + place, path, mask=place < queries)
    tl.store(broken + row, 1 - sound)
    tl.store(judged + row, (fed - 1) * alive)
    tl.store(counts + row, count)
    tl.store(length + row, old + count)
    tl.store(drafted + row, 0)
    tl.store(active + row, tl.load(active + row) * (old + count < tl.load(limit + row)).to(tl.int32))


def commit_tree(
    tokens: Tensor, fed: Fed, ragged: Ragged, parents: Tensor, picks: Tensor, entropies: Tensor, length: Tensor,
    drafted: Tensor, active: Tensor, limit: Tensor, verdict: Verdict, paths: Tensor, queries: int,
) -> None:  # fmt: skip
    """Keeps the picks on the path that agrees with them, the last one being the target's own, and moves the rows on.

    As `rows.commit`, for trees: `picks` and `entropies` are [N], `ragged`, `parents` and `queries` as for `branch`.
    Writes the path to `paths` [B, queries or more] int32: the query whose pick each committed token is (0: the last
    committed token's, which comes first).
    """
    _commit_kernel[(parents.shape[0],)](
        tokens, fed.ids, parents, picks, entropies, fed.counts, ragged.firsts, length, drafted, active, limit,
        verdict.counts, verdict.committed, verdict.judged, verdict.broken, paths, queries, tokens.stride(0),
        verdict.committed.stride(0), parents.stride(0), paths.stride(0), PAD=stepped(queries),
        num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["table_stride", "paths_stride"])
def _compact_kernel(
    keys: tl.tensor,
    values: tl.tensor,
    table: tl.tensor,
    paths: tl.tensor,
    counts: tl.tensor,
    length: tl.tensor,
    head_stride: tl.tensor,
    table_stride: tl.tensor,
    paths_stride: tl.tensor,
    PAGE: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
) -> None:
    row, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    count = tl.load(counts + row)
    first = tl.load(length + row) - count - 1
    d = tl.arange(0, DIM_PAD)
    table += row * table_stride
    # In ascending order nothing is written over before it was read: a node's place on the path is not behind its own.
    for place in range(1, count):
        node = tl.load(paths + row * paths_stride + place)
        source, target = first + node, first + place
        old = tl.load(table + source // PAGE).to(tl.int64) * PAGE + source % PAGE
        new = tl.load(table + target // PAGE).to(tl.int64) * PAGE + target % PAGE
        moved = (d < DIM) & (node != place)
        key = tl.load(keys + head * head_stride + old * DIM + d, mask=moved)
        value = tl.load(values + head * head_stride + old * DIM + d, mask=moved)
        tl.store(keys + head * head_stride + new * DIM + d, key, mask=moved)
        tl.store(values + head * head_stride + new * DIM + d, value, mask=moved)


def compact(
    keys: Tensor, values: Tensor, table: Tensor, paths: Tensor, counts: Tensor, length: Tensor, page_size: int
) -> None:
    """Moves the accepted nodes' keys and values [layers, kv_heads, slots, dim] to where a chain's would be.

    After `commit_tree`, with the `paths` it gave, the rows' `length` and the `counts` [B] int32 that it committed.
    """
    layers, heads, _, dim = keys.shape
    _compact_kernel[(counts.shape[0], layers * heads)](
        keys, values, table, paths, counts, length, keys.stride(1), table.stride(0), paths.stride(0),
        PAGE=page_size, DIM=dim, DIM_PAD=padded(dim, 16), num_warps=1,
    )  # fmt: skip

"""Joining the pieces of a softmax by their log-sum-exps (base 2).

Draft rows' pieces are joined by the last program to finish, decode and verify rows' by a launch of its own: there the
parts are larger, and a join by the last program measured slower (docs/performance-gpu.md).
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.linked import await_previous, release

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def is_last(arrived: tl.tensor, pieces: tl.tensor) -> tl.tensor:
    """Counts this program at `arrived`; whether it is the last of `pieces`, whose parts can then all be read.

    The last one sets the counter back, so that the next launch finds it at 0.
    """
    # Every thread's stores come before the count, and the count before the last one's loads.
    tl.debug_barrier()
    last = tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu") == pieces - 1
    if last:
        tl.debug_barrier()
        tl.store(arrived, 0)
    return last


@triton.jit
def join(
    part_out: tl.tensor,
    part_lse: tl.tensor,
    place: tl.tensor,
    stride: tl.tensor,
    pieces: tl.tensor,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(log-sum-exps [PAD], results [PAD, DIM_PAD]) of ROWS rows from `pieces` parts, CHUNK at a time.

    Row r of piece s lies at `place + s * stride + r`; read past the L1 cache, as other programs wrote it.
    """
    r, d = tl.arange(0, PAD), tl.arange(0, DIM_PAD)
    peak = tl.full((PAD,), float("-inf"), tl.float32)
    total = tl.zeros((PAD,), tl.float32)
    mixed = tl.zeros((PAD, DIM_PAD), tl.float32)
    for start in range(0, pieces, CHUNK):
        piece = start + tl.arange(0, CHUNK)
        part = place + piece.to(tl.int64)[:, None] * stride + r[None, :]
        there = (piece < pieces)[:, None] & (r < ROWS)[None, :]
        lse = tl.load(part_lse + part, mask=there, other=float("-inf"), cache_modifier=".cg")
        wanted = there[:, :, None] & (d < DIM)[None, None, :]
        at = part_out + part[:, :, None] * DIM + d[None, None, :]
        rows = tl.load(at, mask=wanted, other=0.0, cache_modifier=".cg")
        higher = tl.maximum(peak, tl.max(lse, 0))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(lse - safe[None, :])
        fade = tl.exp2(peak - safe)
        mixed = mixed * fade[:, None] + tl.sum(rows * weight[:, :, None], 0)
        total = total * fade + tl.sum(weight, 0)
        peak = higher
    found = total > 0
    return tl.where(found, peak + tl.log2(total), float("-inf")), mixed / tl.where(found, total, 1.0)[:, None]


@triton.jit(do_not_specialize=["queries", "tiles", "side"])
def join_kernel(
    part_out: tl.tensor,
    part_lse: tl.tensor,
    first: tl.tensor,
    counts: tl.tensor,
    firsts: tl.tensor,
    owners: tl.tensor,
    out: tl.tensor,
    reference_out: tl.tensor,
    queries: tl.tensor,
    tiles: tl.tensor,
    side: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    COUNTS: tl.constexpr,
    RAGGED: tl.constexpr,
    REFERENCE: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """Joins the pieces of one query and head; the row's first query also writes the head's mean log-sum-exp.

    RAGGED: tokens without a row come out as zeros, and those of rows without a count are left to others.
    """
    await_previous(LINKED)
    release(LINKED)
    token, q_head = tl.program_id(0), tl.program_id(1)
    row, query = token // queries, token % queries
    owned = token >= 0
    if RAGGED:
        owner = tl.load(owners + token)
        owned = owner >= 0
        row = tl.maximum(owner, 0)
        query = token - tl.load(firsts + row)
    head, in_group = q_head // GROUP, q_head % GROUP
    begin = tl.load(first + row)
    pieces = tl.load(first + row + 1) - begin
    count = queries
    if COUNTS:
        count = tl.load(counts + row)
    piece, each = KV_HEADS * tiles * side, side // GROUP
    place = begin.to(tl.int64) * piece + (head * tiles + query // each) * side + query % each * GROUP + in_group
    pieces = tl.where((query < count) & owned, pieces, 0)
    lse, mixed = join(part_out, part_lse, place, piece, pieces, 1, 1, DIM, DIM_PAD, CHUNK)
    d = tl.arange(0, DIM_PAD)
    at = out + (token * (KV_HEADS * GROUP) + q_head) * DIM + d[None, :]
    mine = d < DIM
    if RAGGED:
        mine = mine & ((count > 0) | (owner < 0))
    tl.store(at, mixed.to(out.dtype.element_ty), mask=mine[None, :])
    seen = tl.max(lse, 0)
    if REFERENCE and (query == 0) & (seen > float("-inf")):
        counted = tl.minimum(count, each)
        start = place + tl.arange(0, PAD) * GROUP
        mean = _mean_lse(part_lse + start, piece, pieces, counted, PAD, CHUNK)
        tl.store(reference_out + row * (KV_HEADS * GROUP) + q_head, mean / LOG2E)


@triton.jit
def _mean_lse(
    starts: tl.tensor,
    stride: tl.tensor,
    pieces: tl.tensor,
    counted: tl.tensor,
    PAD: tl.constexpr,
    CHUNK: tl.constexpr,
) -> tl.tensor:
    """The mean over the first `counted` queries of one head's log-sum-exp over all pieces; `starts` [PAD] pointers."""
    query = tl.arange(0, PAD)
    peak = tl.full((PAD,), float("-inf"), tl.float32)
    total = tl.zeros((PAD,), tl.float32)
    for start in range(0, pieces, CHUNK):
        piece = start + tl.arange(0, CHUNK)
        wanted = (piece < pieces)[None, :] & (query < counted)[:, None]
        at = starts[:, None] + piece.to(tl.int64)[None, :] * stride
        lse = tl.load(at, mask=wanted, other=float("-inf"))
        higher = tl.maximum(peak, tl.max(lse, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(peak - safe) + tl.sum(tl.exp2(lse - safe[:, None]), 1)
        peak = higher
    lse = tl.where(total > 0, peak + tl.log2(total), 0.0)
    return tl.sum(tl.where(query < counted, lse, 0.0), 0) / tl.maximum(counted, 1)

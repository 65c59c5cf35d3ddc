"""Split-KV attention over pages for decode and verify rows, with the importance of positions as a by-product.

The heads of a group and the row's queries are folded into the rows of one matrix product, so that keys and values are
read once (by every tile of M folded rows, where there are more). Each program handles one piece (see `splits`) of one
row and key/value head and leaves a partial result; `join_kernel` joins the pieces. Exponents are to base 2: the scale
holds log2(e).
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.join import LOG2E
from glimpse.attention.triton.linked import await_previous, release

STEEPEST = tl.constexpr(60.0)
"""Largest binary exponent of an importance term: a poor estimate of the log-sum-exp cannot overflow."""
SIDE = tl.constexpr(16)
"""The matrix units' least side."""


@triton.jit
def slots_at(table: tl.tensor, positions: tl.tensor, mask: tl.tensor, PAGE: tl.constexpr) -> tl.tensor:
    """The int64 slots of `positions` of the row whose page table begins at `table`."""
    page = tl.load(table + positions // PAGE, mask=mask, other=0)
    return page.to(tl.int64) * PAGE + positions % PAGE


@triton.jit
def softmax_step(scores: tl.tensor, scale: tl.tensor, peak: tl.tensor, total: tl.tensor) -> tuple[tl.tensor, ...]:
    """One step of the online softmax (base 2): weights [M, BLOCK], the factor of what came before, new peak and total.

    `scores` are products without the scale. A row that has seen nothing keeps its peak of -inf and weights of 0.
    Blocks with and without masks come here, so that a token's result is the same bits in both.
    """
    higher = tl.maximum(peak, tl.max(scores, 1) * scale)
    safe = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(scores * scale - safe[:, None])
    fade = tl.exp2(peak - safe)
    return weights, fade, higher, total * fade + tl.sum(weights, 1)


@triton.jit
def _scores(
    q_block: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slot: tl.tensor,
    inside: tl.tensor,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WHOLE: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(q k^T [M, BLOCK] without the scale, the values [BLOCK, DIM_PAD]) at `slot` [BLOCK]; WHOLE: all are inside."""
    d = tl.arange(0, DIM_PAD)
    place = slot[:, None] * DIM + d[None, :]
    if WHOLE and DIM == DIM_PAD:
        k = tl.load(keys + place)
        v = tl.load(values + place)
    else:
        wanted = inside[:, None] & (d < DIM)[None, :]
        k = tl.load(keys + place, mask=wanted, other=0.0)
        v = tl.load(values + place, mask=wanted, other=0.0)
    return tl.dot(q_block, tl.trans(k), input_precision="ieee"), v


@triton.jit
def _store_importance(
    to: tl.tensor,
    mask: tl.tensor,
    weights: tl.tensor,
    peak: tl.tensor,
    estimate: tl.tensor,
    share: tl.tensor,
    DTYPE: tl.constexpr,
    PRODUCT: tl.constexpr,
) -> None:
    """Stores the sum over queries of share * exp(score - estimate) at `to` [BLOCK]; `weights` are counted from `peak`.

    PRODUCT: the sum is a matrix product with operands of DTYPE, for where the rows of `weights` lie in many threads.
    Its factors are taken relative to the largest, so that 16 bits hold them.
    """
    steep = tl.where((share > 0) & (peak > float("-inf")), tl.minimum(peak - estimate, STEEPEST), float("-inf"))
    if PRODUCT:
        top = tl.maximum(tl.max(steep, 0), -STEEPEST)
        factors = (share * tl.exp2(steep - top)).to(DTYPE)
        rows = tl.broadcast_to(factors[None, :], (SIDE, factors.shape[0]))
        sums = tl.dot(rows, weights.to(DTYPE), input_precision="ieee") * tl.exp2(top)
        first = (tl.arange(0, SIDE) == 0)[:, None]
        at = to[None, :] + tl.zeros((SIDE, 1), tl.int32)
        tl.store(at, sums.to(to.dtype.element_ty), mask=first & mask[None, :])
    else:
        sums = tl.sum(weights * (share * tl.exp2(steep))[:, None], 0)
        tl.store(to, sums.to(to.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["items", "queries", "tiles", "table_stride", "importance_stride"])
def paged_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    counts: tl.tensor,
    firsts: tl.tensor,
    tree: tl.tensor,
    work: tl.tensor,
    part_out: tl.tensor,
    part_lse: tl.tensor,
    importance: tl.tensor,
    reference: tl.tensor,
    weight: tl.tensor,
    items: tl.tensor,
    queries: tl.tensor,
    tiles: tl.tensor,
    q_stride: tl.tensor,
    head_stride: tl.tensor,
    table_stride: tl.tensor,
    importance_stride: tl.tensor,
    scale: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    SINGLE: tl.constexpr,
    M: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    COUNTS: tl.constexpr,
    RAGGED: tl.constexpr,
    TREE: tl.constexpr,
    IMPORTANCE: tl.constexpr,
    WEIGHTED: tl.constexpr,
    PRODUCT: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """One piece of one row, key/value head and tile of EACH queries; see `Paged` for the tensors."""
    EACH: tl.constexpr = M // GROUP
    await_previous(LINKED)
    release(LINKED)
    tile, head, item = 0, tl.program_id(0), tl.program_id(1)
    if not SINGLE:
        tile, head = head % tiles, head // tiles
    row = tl.load(work + item)
    if row < 0:
        return
    begin, end = tl.load(work + items + item), tl.load(work + 2 * items + item)
    length = tl.load(lengths + row)
    count = 1
    if not SINGLE:
        count = queries
    if COUNTS:
        count = tl.load(counts + row)
    if tile * EACH >= count:
        return
    first = row
    if not SINGLE:
        first = row * queries
    if RAGGED:
        first = tl.load(firsts + row)
    base = length - count
    m, d = tl.arange(0, M), tl.arange(0, DIM_PAD)
    query, in_group = tile * EACH + m // GROUP, m % GROUP
    real = (query < count) & (m < EACH * GROUP)
    q_head = head * GROUP + in_group
    q_at = q + ((first + query) * q_stride + q_head * DIM)[:, None] + d[None, :]
    q_block = tl.load(q_at, mask=real[:, None] & (d < DIM)[None, :], other=0.0)
    table += row * table_stride
    keys += head.to(tl.int64) * head_stride
    values += head.to(tl.int64) * head_stride
    seen = tl.zeros((M,), tl.int64)
    if TREE:
        seen = tl.load(tree + row * queries + query, mask=real, other=0)
    estimate = tl.zeros((M,), tl.float32)
    share = real.to(tl.float32)
    if IMPORTANCE:
        estimate = tl.load(reference + row * (KV_HEADS * GROUP) + q_head, mask=real, other=0.0) * LOG2E
        importance += (row * KV_HEADS + head).to(tl.int64) * importance_stride
        if WEIGHTED:
            share = tl.load(weight + row * queries + query, mask=real, other=0.0)

    peak = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    mixed = tl.zeros((M, DIM_PAD), tl.float32)
    # Whole blocks before the row's own tokens are seen by every query; only the rest needs masks. Queries that are
    # padding get weights of no meaning, which nothing reads.
    plain_end = begin + tl.maximum(tl.minimum(end, base) - begin, 0) // BLOCK * BLOCK
    for start in range(begin, plain_end, BLOCK):
        position = start + tl.arange(0, BLOCK)
        page = tl.load(table + position // PAGE)
        slot = page.to(tl.int64) * PAGE + position % PAGE
        raw, v = _scores(q_block, keys, values, slot, position >= 0, DIM, DIM_PAD, True)
        weights, fade, peak, total = softmax_step(raw, scale, peak, total)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * fade[:, None], input_precision="ieee")
        if IMPORTANCE:
            mask = (position >= 0) & (tile == 0)
            _store_importance(importance + position, mask, weights, peak, estimate, share, v.dtype, PRODUCT)
    for start in range(plain_end, end, BLOCK):
        position = start + tl.arange(0, BLOCK)
        inside = position < end
        slot = slots_at(table, position, inside, PAGE)
        raw, v = _scores(q_block, keys, values, slot, inside, DIM, DIM_PAD, False)
        own = position - base
        if TREE:
            bits = (seen[:, None] >> tl.maximum(own, 0)[None, :].to(tl.int64)) & 1
            visible = (own < 0)[None, :] | (bits != 0)
        else:
            visible = own[None, :] <= query[:, None]
        scores = tl.where(visible & inside[None, :] & real[:, None], raw, float("-inf"))
        weights, fade, peak, total = softmax_step(scores, scale, peak, total)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * fade[:, None], input_precision="ieee")
        if IMPORTANCE:
            mask = inside & (own < 0) & (tile == 0)
            _store_importance(importance + position, mask, weights, peak, estimate, share, v.dtype, PRODUCT)

    part = ((item * KV_HEADS + head) * tiles + tile).to(tl.int64) * M + m
    found = total > 0
    tl.store(part_lse + part, tl.where(found, peak + tl.log2(total), float("-inf")), mask=real)
    mixed = mixed / tl.where(found, total, 1.0)[:, None]
    tl.store(part_out + part[:, None] * DIM + d[None, :], mixed, mask=real[:, None] & (d < DIM)[None, :])

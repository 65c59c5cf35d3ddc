"""Split-KV attention over pages for decode and verify rows, with the importance of positions as a by-product.

The heads of a group and the row's queries are folded into the rows of one matrix product, so that keys and values are
read once. Each program handles one piece (see `splits`) of one row and key/value head and leaves a partial result;
`combine_kernel` joins the pieces by their log-sum-exps. Exponents are to base 2: the scale holds log2(e).
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.linked import await_previous, release

LOG2E = tl.constexpr(1.4426950408889634)
STEEPEST = tl.constexpr(60.0)
"""Largest binary exponent of an importance term: a poor estimate of the log-sum-exp cannot overflow float32."""


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
def _importance(weights: tl.tensor, peak: tl.tensor, estimate: tl.tensor, share: tl.tensor) -> tl.tensor:
    """[BLOCK]: the sum over queries of exp(score - estimate), from the weights, which are counted from the peak."""
    safe = tl.where(peak == float("-inf"), 0.0, peak)
    lift = share * tl.exp2(tl.minimum(safe - estimate, STEEPEST))
    return tl.sum(weights * lift[:, None], 0)


@triton.jit(do_not_specialize=["items", "table_stride", "importance_stride"])
def paged_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    counts: tl.tensor,
    tree: tl.tensor,
    work: tl.tensor,
    part_out: tl.tensor,
    part_lse: tl.tensor,
    importance: tl.tensor,
    reference: tl.tensor,
    weight: tl.tensor,
    items: tl.tensor,
    q_stride: tl.tensor,
    head_stride: tl.tensor,
    table_stride: tl.tensor,
    importance_stride: tl.tensor,
    scale: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    QUERIES: tl.constexpr,
    M: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    COUNTS: tl.constexpr,
    TREE: tl.constexpr,
    IMPORTANCE: tl.constexpr,
    WEIGHTED: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """One piece of one row and key/value head; see `Paged` for the tensors."""
    await_previous(LINKED)
    release(LINKED)
    head, item = tl.program_id(0), tl.program_id(1)
    row = tl.load(work + item)
    if row < 0:
        return
    begin, end = tl.load(work + items + item), tl.load(work + 2 * items + item)
    length = tl.load(lengths + row)
    count = QUERIES
    if COUNTS:
        count = tl.load(counts + row)
    base = length - count
    m, d = tl.arange(0, M), tl.arange(0, DIM_PAD)
    query, in_group = m // GROUP, m % GROUP
    real = query < count
    q_head = head * GROUP + in_group
    q_at = q + ((row * QUERIES + query) * q_stride + q_head * DIM)[:, None] + d[None, :]
    q_block = tl.load(q_at, mask=real[:, None] & (d < DIM)[None, :], other=0.0)
    table += row * table_stride
    keys += head.to(tl.int64) * head_stride
    values += head.to(tl.int64) * head_stride
    seen = tl.zeros((M,), tl.int64)
    if TREE:
        seen = tl.load(tree + row * QUERIES + query, mask=real, other=0)
    estimate = tl.zeros((M,), tl.float32)
    share = real.to(tl.float32)
    if IMPORTANCE:
        estimate = tl.load(reference + row * (KV_HEADS * GROUP) + q_head, mask=real, other=0.0) * LOG2E
        importance += (row * KV_HEADS + head).to(tl.int64) * importance_stride
        if WEIGHTED:
            share = tl.load(weight + row * QUERIES + query, mask=real, other=0.0)

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
            tl.store(importance + position, _importance(weights, peak, estimate, share))
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
            tl.store(importance + position, _importance(weights, peak, estimate, share), mask=inside & (own < 0))

    part = (item * KV_HEADS + head).to(tl.int64) * M + m
    tl.store(part_lse + part, tl.where(total > 0, peak + tl.log2(total), float("-inf")))
    mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(part_out + part[:, None] * DIM + d[None, :], mixed, mask=real[:, None] & (d < DIM)[None, :])


@triton.jit
def combine_kernel(
    part_out: tl.tensor,
    part_lse: tl.tensor,
    first: tl.tensor,
    counts: tl.tensor,
    out: tl.tensor,
    reference_out: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    QUERIES: tl.constexpr,
    QUERIES_PAD: tl.constexpr,
    M: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PIECES: tl.constexpr,
    COUNTS: tl.constexpr,
    REFERENCE: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """Joins the pieces of one query and head; the row's first query also writes the head's mean log-sum-exp."""
    await_previous(LINKED)
    release(LINKED)
    token, q_head = tl.program_id(0), tl.program_id(1)
    row, query = token // QUERIES, token % QUERIES
    head, in_group = q_head // GROUP, q_head % GROUP
    begin, end = tl.load(first + row), tl.load(first + row + 1)
    count = QUERIES
    if COUNTS:
        count = tl.load(counts + row)
    d = tl.arange(0, DIM_PAD)
    peak = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    mixed = tl.zeros((DIM_PAD,), tl.float32)
    end = tl.where(query < count, end, begin)
    for start in range(begin, end, PIECES):
        piece = start + tl.arange(0, PIECES)
        part = (piece * KV_HEADS + head).to(tl.int64) * M + query * GROUP + in_group
        lse = tl.load(part_lse + part, mask=piece < end, other=float("-inf"))
        higher = tl.maximum(peak, tl.max(lse, 0))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(lse - safe)
        fade = tl.exp2(peak - safe)
        rows = tl.load(
            part_out + part[:, None] * DIM + d[None, :], mask=(weight > 0)[:, None] & (d < DIM)[None, :], other=0.0
        )
        mixed = mixed * fade + tl.sum(rows * weight[:, None], 0)
        total = total * fade + tl.sum(weight, 0)
        peak = higher
    mixed = mixed / tl.where(total > 0, total, 1.0)
    place = out + (token * (KV_HEADS * GROUP) + q_head) * DIM + d
    tl.store(place, mixed.to(out.dtype.element_ty), mask=d < DIM)
    if REFERENCE and (query == 0) & (end > begin):
        mean = _mean_lse(part_lse + head * M + in_group, begin, end, count, KV_HEADS * M, GROUP, QUERIES_PAD, PIECES)
        tl.store(reference_out + row * (KV_HEADS * GROUP) + q_head, mean / LOG2E)


@triton.jit
def _mean_lse(
    part_lse: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    count: tl.tensor,
    STRIDE: tl.constexpr,
    GROUP: tl.constexpr,
    QUERIES_PAD: tl.constexpr,
    PIECES: tl.constexpr,
) -> tl.tensor:
    """The mean over a row's queries of one head's log-sum-exp over all pieces (base 2)."""
    query = tl.arange(0, QUERIES_PAD)
    peak = tl.full((QUERIES_PAD,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES_PAD,), tl.float32)
    for start in range(begin, end, PIECES):
        piece = start + tl.arange(0, PIECES)
        part = piece.to(tl.int64)[None, :] * STRIDE + query[:, None] * GROUP
        wanted = (piece < end)[None, :] & (query < count)[:, None]
        lse = tl.load(part_lse + part, mask=wanted, other=float("-inf"))
        _, _, peak, total = softmax_step(lse, 1.0, peak, total)
    lse = tl.where(total > 0, peak + tl.log2(total), 0.0)
    return tl.sum(tl.where(query < count, lse, 0.0), 0) / tl.maximum(count, 1)

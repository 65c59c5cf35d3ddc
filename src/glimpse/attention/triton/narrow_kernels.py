"""The kernels of `narrow`: three, for four launches a layer. A program does a tile of the weight's rows and of tokens.

Whatever depends on the weights alone comes before the wait (`linked`), and every load behind it before the product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.fused import turned
from glimpse.attention.triton.linked import await_previous, release
from glimpse.attention.triton.tiles import halves, held, held_norm, looped, normed, whole


@triton.jit(do_not_specialize=["count"])
def qkv_kernel(
    x: tl.tensor,
    norm: tl.tensor,
    weight: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    positions: tl.tensor,
    slots: tl.tensor,
    q_out: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    eps: tl.tensor,
    head_stride: tl.tensor,
    count: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
    EARLY: tl.constexpr,
) -> None:
    """COLUMNS // 2 rotary pairs of one head, rotated; queries to `q_out`, keys and values to the pool."""
    if EARLY:
        release(LINKED)
    PAIRS: tl.constexpr = COLUMNS // 2
    HALF: tl.constexpr = DIM // 2
    head, part = tl.program_id(0) // (DIM // COLUMNS), tl.program_id(0) % (DIM // COLUMNS)
    column, pair = tl.arange(0, COLUMNS), tl.arange(0, PAIRS)
    row = head * DIM + part * PAIRS + column % PAIRS + column // PAIRS * HALF
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    w1, w2 = held(weight, row, row >= 0, WIDTH, 1, FIRST, SECOND, 1)
    n1, n2 = held_norm(norm, WIDTH, FIRST, SECOND)
    await_previous(LINKED)
    if not EARLY:
        release(LINKED)
    x1, x2 = held(x, token, token < count, WIDTH, 1, FIRST, SECOND, 1)
    d = (part * PAIRS + pair)[:, None]
    slot = tl.load(slots + token, mask=token < count, other=-1)[None, :]
    angle = tl.load(positions + token, mask=token < count, other=0)[None, :] * DIM + d
    cos1, cos2 = tl.load(cos + angle), tl.load(cos + angle + HALF)
    sin1, sin2 = tl.load(sin + angle), tl.load(sin + angle + HALF)
    if SECOND < 0:
        both = looped(weight, x, row, token, count, WIDTH, FIRST, COLUMNS, TOKENS)
    else:
        x1, x2 = normed(x1, x2, n1, n2, eps, WIDTH, SECOND)
        both = whole(w1, w2, x1, x2, SECOND, 1)
    left, right = halves(both.to(weight.dtype.element_ty), COLUMNS, TOKENS)
    y1, y2 = turned(left, right, cos1, sin1), turned(right, left, cos2, sin2)
    q_at = q_out + (token.to(tl.int64)[None, :] * HEADS + head) * DIM + d
    key_at = keys + (head - HEADS).to(tl.int64) * head_stride + slot * DIM + d
    value_at = values + (head - HEADS - KV_HEADS).to(tl.int64) * head_stride + slot * DIM + d
    is_query, is_value = head < HEADS, head >= HEADS + KV_HEADS
    # One store of each half, whatever the head is: every other one would pass through shared memory once more.
    at = tl.where(is_query, q_at, tl.where(is_value, value_at, key_at))
    wanted = (token < count)[None, :] & (is_query | (slot >= 0)) & (d >= 0)
    tl.store(at, tl.where(is_value, left, y1), mask=wanted)
    tl.store(at + HALF, tl.where(is_value, right, y2), mask=wanted)


@triton.jit(do_not_specialize=["count"])
def gate_kernel(
    x: tl.tensor,
    norm: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    count: tl.tensor,
    INNER: tl.constexpr,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
    EARLY: tl.constexpr,
) -> None:
    """COLUMNS // 2 gated units."""
    if EARLY:
        release(LINKED)
    UNITS: tl.constexpr = COLUMNS // 2
    column, unit = tl.arange(0, COLUMNS), tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = tl.program_id(0) * UNITS + column % UNITS + column // UNITS * INNER
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    w1, w2 = held(weight, row, row >= 0, WIDTH, 1, FIRST, SECOND, 1)
    n1, n2 = held_norm(norm, WIDTH, FIRST, SECOND)
    await_previous(LINKED)
    if not EARLY:
        release(LINKED)
    if SECOND < 0:
        both = looped(weight, x, row, token, count, WIDTH, FIRST, COLUMNS, TOKENS)
    else:
        x1, x2 = held(x, token, token < count, WIDTH, 1, FIRST, SECOND, 1)
        x1, x2 = normed(x1, x2, n1, n2, eps, WIDTH, SECOND)
        both = whole(w1, w2, x1, x2, SECOND, 1)
    gate, up = halves(both.to(weight.dtype.element_ty), COLUMNS, TOKENS)
    gate = gate.to(tl.float32)
    opened = (gate / (1.0 + tl.exp(-gate))).to(up.dtype).to(tl.float32)
    at = out + token.to(tl.int64)[None, :] * INNER + unit[:, None]
    tl.store(at, (opened * up.to(tl.float32)).to(up.dtype), mask=(token < count)[None, :])


@triton.jit(do_not_specialize=["count"])
def add_kernel(
    x: tl.tensor,
    weight: tl.tensor,
    residual: tl.tensor,
    parts: tl.tensor,
    arrived: tl.tensor,
    count: tl.tensor,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    SLICES: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
    EARLY: tl.constexpr,
) -> None:
    """residual [count, HIDDEN] += x [count, WIDTH] @ weight^T in COLUMNS columns, or one of SPLITS parts of it."""
    if EARLY:
        release(LINKED)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    real, begin = token < count, tl.program_id(2) * (WIDTH // SPLITS)
    w1, w2 = held(weight + begin, column, column >= 0, WIDTH, SPLITS, FIRST, SECOND, SLICES)
    await_previous(LINKED)
    if not EARLY:
        release(LINKED)
    x1, x2 = held(x + begin, token, real, WIDTH, SPLITS, FIRST, SECOND, SLICES)
    at = residual + token.to(tl.int64)[None, :] * HIDDEN + column[:, None]
    old = tl.load(at, mask=real[None, :], other=0.0)
    if SECOND < 0:
        total = looped(weight, x, column, token, count, WIDTH, FIRST, COLUMNS, TOKENS)
    else:
        total = whole(w1, w2, x1, x2, SECOND, SLICES)
    last = True
    if SPLITS > 1:
        tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        last = _arrives_last(parts, arrived, tile, total, SPLITS, COLUMNS, TOKENS)
        if last:
            total = _joined(parts, tile, SPLITS, COLUMNS, TOKENS)
    if last:
        added = total.to(old.dtype).to(tl.float32)
        tl.store(at, (old.to(tl.float32) + added).to(old.dtype), mask=real[None, :])


@triton.jit
def _arrives_last(
    parts: tl.tensor,
    arrived: tl.tensor,
    tile: tl.tensor,
    total: tl.tensor,
    SPLITS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS: tl.constexpr,
) -> tl.tensor:
    """Leaves one part of a tile's sum; whether all others are there. The last one sets the count back."""
    cell = tl.arange(0, COLUMNS)[:, None] * TOKENS + tl.arange(0, TOKENS)[None, :]
    tl.store(parts + (tile * SPLITS + tl.program_id(2)) * (COLUMNS * TOKENS) + cell, total)
    # Every thread's stores come before the count, and the count before the last one's loads.
    tl.debug_barrier()
    last = tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu") == SPLITS - 1
    tl.debug_barrier()
    if last:
        tl.store(arrived + tile, 0)
    return last


@triton.jit
def _joined(
    parts: tl.tensor, tile: tl.tensor, SPLITS: tl.constexpr, COLUMNS: tl.constexpr, TOKENS: tl.constexpr
) -> tl.tensor:
    """The sum of a tile's parts, always in the same order; read past the L1 cache."""
    cell = tl.arange(0, COLUMNS)[:, None] * TOKENS + tl.arange(0, TOKENS)[None, :]
    total = tl.zeros((COLUMNS, TOKENS), tl.float32)
    for part in tl.static_range(SPLITS):
        total += tl.load(parts + (tile * SPLITS + part) * (COLUMNS * TOKENS) + cell, cache_modifier=".cg")
    return total

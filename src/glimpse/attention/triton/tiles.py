"""Products of a tile of tokens with a tile of a weight's rows, in one program, behind RMSNorm or not.

Few tokens (SECOND >= 0): the whole inner dimension at once, as one block of FIRST columns and one of SECOND (0: none),
powers of two, one slice of each a warp: [WARPS, rows, slice]. Every load is issued before the first is waited for, no
warp reads what another one multiplies, and the warps' sums are added last.
Many tokens (SECOND < 0): FIRST columns of the inner dimension after FIRST columns, the next ones in flight.
A token's result depends on its own row and the kind of product alone, not on what else the tile holds.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _columns(start: tl.constexpr, PART: tl.constexpr, WARPS: tl.constexpr) -> tl.tensor:
    """Columns start .. start + PART - 1 as [WARPS, 1, PART // WARPS]."""
    SLICE: tl.constexpr = PART // WARPS
    return start + tl.arange(0, WARPS)[:, None, None] * SLICE + tl.arange(0, SLICE)[None, None, :]


@triton.jit
def _rows(
    matrix: tl.tensor,
    row: tl.tensor,
    there: tl.tensor,
    start: tl.constexpr,
    WIDTH: tl.constexpr,
    PART: tl.constexpr,
    WARPS: tl.constexpr,
) -> tl.tensor:
    """[WARPS, rows, PART // WARPS]: columns from `start` on of the rows `row` of `matrix` [any, WIDTH].

    Zeros beyond the width and where `there` [rows] does not hold.
    """
    k = _columns(start, PART, WARPS)
    wanted = there[None, :, None]
    if start + PART > WIDTH:
        wanted = wanted & (k < WIDTH)
    return tl.load(matrix + row.to(tl.int64)[None, :, None] * WIDTH + k, mask=wanted, other=0.0)


@triton.jit
def _scaled(x: tl.tensor, scale: tl.tensor, norm: tl.tensor) -> tl.tensor:
    """`x` times `scale`, rounded, then times `norm`, rounded: the plain decoder's RMSNorm."""
    once = (x.to(tl.float32) * scale).to(x.dtype).to(tl.float32)
    return (once * norm.to(tl.float32)).to(x.dtype)


@triton.jit
def held(
    matrix: tl.tensor,
    row: tl.tensor,
    there: tl.tensor,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    WARPS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Both blocks of rows `row` of `matrix` [any, WIDTH] in registers; nothing of meaning where there are none.

    Zeros beyond the width and where `there` [rows] does not hold.
    """
    if SECOND < 0:
        return row, row
    first = _rows(matrix, row, there, 0, WIDTH, FIRST, WARPS)
    if SECOND == 0:
        return first, first
    return first, _rows(matrix, row, there, FIRST, WIDTH, SECOND, WARPS)


@triton.jit
def held_norm(
    norm: tl.tensor, WIDTH: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, WARPS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Both blocks of the norm's weight [WIDTH], as `held`."""
    none = tl.zeros((1,), tl.int32)
    if SECOND < 0:
        return none, none
    k = _columns(0, FIRST, WARPS)
    first = tl.load(norm + k, mask=k < WIDTH, other=0.0)
    if SECOND == 0:
        return first, first
    k = _columns(FIRST, SECOND, WARPS)
    return first, tl.load(norm + k, mask=k < WIDTH, other=0.0)


@triton.jit
def normed(
    x1: tl.tensor,
    x2: tl.tensor,
    n1: tl.tensor,
    n2: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    SECOND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """RMSNorm of the rows of which `x1`, `x2` are the blocks; `n1`, `n2`: the norm's weight."""
    if SECOND < 0:
        return x1, x2
    squares = _squares(x1)
    if SECOND > 0:
        squares += _squares(x2)
    scale = tl.rsqrt(squares / WIDTH + eps)[None, :, None]
    if SECOND == 0:
        first = _scaled(x1, scale, n1)
        return first, first
    return _scaled(x1, scale, n1), _scaled(x2, scale, n2)


@triton.jit
def _squares(x: tl.tensor) -> tl.tensor:
    wide = x.to(tl.float32)
    return tl.sum(tl.sum(wide * wide, 2), 0)


@triton.jit
def sliced(x1: tl.tensor, x2: tl.tensor, w1: tl.tensor, w2: tl.tensor, SECOND: tl.constexpr) -> tl.tensor:
    """[tokens, columns]: the product of what is held, in the dtype of `x1`."""
    total = tl.dot(x1, tl.permute(w1, (0, 2, 1)), input_precision="ieee")
    if SECOND > 0:
        total = tl.dot(x2, tl.permute(w2, (0, 2, 1)), total, input_precision="ieee")
    return tl.sum(total, 0).to(x1.dtype)


@triton.jit
def looped(
    x: tl.tensor,
    weight: tl.tensor,
    token: tl.tensor,
    row: tl.tensor,
    count: tl.tensor,
    norm: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    NORM: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> tl.tensor:
    """[TOKENS, COLUMNS] in the dtype of `x`: rows `token` of `x` [count, WIDTH] times rows `row` of `weight`.

    BLOCK columns after BLOCK columns, which divide WIDTH. NORM: RMSNorm of `x` first.
    """
    k, real = tl.arange(0, BLOCK), (token < count)[:, None]
    x_at = x + token.to(tl.int64)[:, None] * WIDTH + k[None, :]
    weight_at = weight + row.to(tl.int64)[:, None] * WIDTH + k[None, :]
    scale = tl.zeros((TOKENS, 1), tl.float32)
    if NORM:
        squares = tl.zeros((TOKENS,), tl.float32)
        for start in tl.static_range(0, WIDTH, BLOCK):
            wide = tl.load(x_at + start, mask=real, other=0.0).to(tl.float32)
            squares += tl.sum(wide * wide, 1)
        scale = tl.rsqrt(squares / WIDTH + eps)[:, None]
    total = tl.zeros((TOKENS, COLUMNS), tl.float32)
    for start in range(0, WIDTH, BLOCK):
        value = tl.load(x_at + start, mask=real, other=0.0)
        weights = tl.load(weight_at + start)
        if NORM:
            value = _scaled(value, scale, tl.load(norm + start + k)[None, :])
        total = tl.dot(value, tl.trans(weights), total, input_precision="ieee")
    return total.to(x.dtype.element_ty)


@triton.jit
def halves(pairs: tl.tensor, TOKENS: tl.constexpr, COLUMNS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """The even and the odd columns of `pairs` [TOKENS, COLUMNS]."""
    return tl.split(tl.reshape(pairs, (TOKENS, COLUMNS // 2, 2)))

"""Products of a tile of a weight's rows with a tile of tokens, in one program, behind RMSNorm or not.

All come out transposed, [rows of the weight, tokens]: the matrix units take 64 rows at least on one side and 8 on the
other, and a few tokens are the short side. Three kinds, by how the inner dimension is taken:

* whole: all of it at once, as one block of FIRST columns and one of SECOND (0: none), powers of two. Every load is
  issued before the first is waited for, and the weights are in shared memory before the kernel before has ended.
* sliced: the same, but each warp takes a slice of it, and the warps' sums are added last: for few rows of a long inner
  dimension.
* looped (SECOND < 0): FIRST columns after FIRST columns, the next ones in flight: for many tokens, whose RMSNorm is
  better done once, in a launch of its own.

A token's result depends on its own row and the kind of product alone, not on what else the tile holds.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _columns(start: tl.constexpr, PART: tl.constexpr, SLICES: tl.constexpr) -> tl.tensor:
    """Columns start .. start + PART - 1 as [1, PART], or [SLICES, 1, PART // SLICES] where there are slices."""
    SLICE: tl.constexpr = PART // SLICES
    if SLICES == 1:
        k = start + tl.arange(0, PART)[None, :]
    else:
        k = start + tl.arange(0, SLICES)[:, None, None] * SLICE + tl.arange(0, SLICE)[None, None, :]
    return k


@triton.jit
def _block(
    matrix: tl.tensor,
    row: tl.tensor,
    there: tl.tensor,
    start: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    PART: tl.constexpr,
    SLICES: tl.constexpr,
) -> tl.tensor:
    k = _columns(start, PART, SLICES)
    if SLICES == 1:
        at, wanted = matrix + row.to(tl.int64)[:, None] * WIDTH + k, there[:, None]
    else:
        at, wanted = matrix + row.to(tl.int64)[None, :, None] * WIDTH + k, there[None, :, None]
    if start + PART > WIDTH // SPLITS:
        wanted = wanted & (k < WIDTH // SPLITS)
    return tl.load(at, mask=wanted, other=0.0)


@triton.jit
def held(
    matrix: tl.tensor,
    row: tl.tensor,
    there: tl.tensor,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    SLICES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Both blocks of rows `row` of `matrix` [any, WIDTH]; nothing of meaning where there are none (looped).

    SPLITS > 1: of the part of the inner dimension that begins at `matrix`. [rows, block], or [SLICES, rows, block //
    SLICES]; zeros beyond the width and where `there` [rows] does not hold.
    """
    if SECOND < 0:
        first, second = row, row
    else:
        first = _block(matrix, row, there, 0, WIDTH, SPLITS, FIRST, SLICES)
        second = first
        if SECOND > 0:
            second = _block(matrix, row, there, FIRST, WIDTH, SPLITS, SECOND, SLICES)
    return first, second


@triton.jit
def held_norm(
    norm: tl.tensor, WIDTH: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Both blocks of the norm's weight [WIDTH], [1, block] each, as `held`."""
    first = _columns(0, 1, 1)
    if SECOND >= 0:
        k = _columns(0, FIRST, 1)
        first = tl.load(norm + k, mask=k < WIDTH, other=0.0)
    second = first
    if SECOND > 0:
        k = _columns(FIRST, SECOND, 1)
        second = tl.load(norm + k, mask=k < WIDTH, other=0.0)
    return first, second


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
    squares = _squares(x1)
    if SECOND > 0:
        squares += _squares(x2)
    scale = tl.rsqrt(squares / WIDTH + eps)[:, None]
    first = _scaled(x1, scale, n1)
    second = first
    if SECOND > 0:
        second = _scaled(x2, scale, n2)
    return first, second


@triton.jit
def _squares(x: tl.tensor) -> tl.tensor:
    wide = x.to(tl.float32)
    return tl.sum(wide * wide, 1)


@triton.jit
def _scaled(x: tl.tensor, scale: tl.tensor, norm: tl.tensor) -> tl.tensor:
    """`x` times `scale`, rounded, then times `norm`, rounded: the plain decoder's RMSNorm."""
    once = (x.to(tl.float32) * scale).to(x.dtype).to(tl.float32)
    return (once * norm.to(tl.float32)).to(x.dtype)


@triton.jit
def whole(
    w1: tl.tensor, w2: tl.tensor, x1: tl.tensor, x2: tl.tensor, SECOND: tl.constexpr, SLICES: tl.constexpr
) -> tl.tensor:
    """[rows, tokens] float32: the product of what is held."""
    if SLICES == 1:
        total = tl.dot(w1, tl.trans(x1), input_precision="ieee")
        if SECOND > 0:
            total = tl.dot(w2, tl.trans(x2), total, input_precision="ieee")
    else:
        each = tl.dot(w1, tl.permute(x1, (0, 2, 1)), input_precision="ieee")
        if SECOND > 0:
            each = tl.dot(w2, tl.permute(x2, (0, 2, 1)), each, input_precision="ieee")
        total = tl.sum(each, 0)
    return total


@triton.jit
def looped(
    weight: tl.tensor,
    x: tl.tensor,
    row: tl.tensor,
    token: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS: tl.constexpr,
) -> tl.tensor:
    """[COLUMNS, TOKENS] float32: rows `row` of `weight` times rows `token` of `x` [count, WIDTH].

    BLOCK columns after BLOCK columns, which divide WIDTH.
    """
    k, real = tl.arange(0, BLOCK), (token < count)[:, None]
    x_at = x + token.to(tl.int64)[:, None] * WIDTH + k[None, :]
    weight_at = weight + row.to(tl.int64)[:, None] * WIDTH + k[None, :]
    total = tl.zeros((COLUMNS, TOKENS), tl.float32)
    for start in range(0, WIDTH, BLOCK):
        value = tl.load(x_at + start, mask=real, other=0.0)
        total = tl.dot(tl.load(weight_at + start), tl.trans(value), total, input_precision="ieee")
    return total


@triton.jit
def halves(rows: tl.tensor, COLUMNS: tl.constexpr, TOKENS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """The first and the second half of `rows` [COLUMNS, TOKENS]."""
    first, second = tl.split(tl.permute(tl.reshape(rows, (2, COLUMNS // 2, TOKENS)), (1, 2, 0)))
    return first, second

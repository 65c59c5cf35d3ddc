"""A product with a weight in one order, whatever the number of tokens: for the head where bits count."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.linked import await_previous, launch_options, release
from glimpse.attention.triton.sizes import padded
from glimpse.attention.triton.tiles import looped

COLUMNS, BLOCK = 64, 64
"""Rows of the weight that a program does, and numbers of the inner dimension at a time."""


@triton.jit(do_not_specialize=["count", "rows"])
def product_kernel(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    STEP: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """COLUMNS columns of `out` [count, rows] for TOKENS tokens."""
    await_previous(LINKED)
    release(LINKED)
    row = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    total = looped(weight, x, tl.minimum(row, rows - 1), token, count, WIDTH, STEP, COLUMNS, TOKENS)
    at = out + token.to(tl.int64)[None, :] * rows + row[:, None]
    tl.store(at, total.to(out.dtype.element_ty), mask=(token < count)[None, :] & (row < rows)[:, None])


def product(x: Tensor, weight: Tensor, *, linked: bool = False) -> Tensor:
    """`x` [N, width] @ `weight` [rows, width]^T, rounded to their dtype; the width is a multiple of 64."""
    count, rows = len(x), len(weight)
    out = torch.empty(count, rows, dtype=x.dtype, device=x.device)
    tokens = min(padded(count, 16), 64)
    product_kernel[(-(-rows // COLUMNS), -(-count // tokens))](
        x, weight, out, count, rows, WIDTH=weight.shape[1], STEP=BLOCK, COLUMNS=COLUMNS, TOKENS=tokens, num_warps=4,
        num_stages=4, **launch_options(linked),
    )  # fmt: skip
    return out


__all__ = ["product"]

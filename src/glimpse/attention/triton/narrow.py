"""Linears of narrow models with what surrounds them, for few tokens: norm, product and what follows in one launch.

A model of some hundred million parameters spends its decode steps in launches, not in bytes. Here a layer takes four
beside its attention: norm + q/k/v + rotation + cache write, output + residual, norm + gate/up + silu * mul, down +
residual. The norm's scale is applied behind the product (it is one number a token), so that the row's sum of squares
is gathered on the way: one pass over the tokens, and one rounding less than norm and product apart.

Launches depend on one another programmatically on Hopper (`linked`): a kernel starts while the one before it drains,
brings its weights to the L2 cache, and only then waits. So every kernel of such a chain waits before it reads or writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.fused import turned
from glimpse.attention.triton.linked import await_previous, launch_options, release
from glimpse.attention.triton.sizes import padded

K_BLOCK = 64
LINE = tl.constexpr(64)
"""16-bit numbers in a line of the L2 cache."""


@triton.jit
def prefetch(at: tl.tensor) -> None:
    """Asks for the cache lines at the pointers `at`, without waiting for them."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _bring(
    weight: tl.tensor, first: tl.tensor, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, LINKED: tl.constexpr
) -> None:
    """Brings rows first .. first + COLUMNS - 1 of the weight near, where there is a wait to use."""
    if LINKED:
        LINES: tl.constexpr = WIDTH // LINE
        line = tl.arange(0, triton.next_power_of_2(LINES))
        row = first + tl.arange(0, COLUMNS)
        prefetch(weight + row[:, None].to(tl.int64) * WIDTH + tl.minimum(line, LINES - 1)[None, :] * LINE)


@triton.jit
def _normed_pair(
    x: tl.tensor,
    norm: tl.tensor,
    left: tl.tensor,
    right: tl.tensor,
    eps: tl.tensor,
    tokens: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    M: tl.constexpr,
    COLUMNS: tl.constexpr,
    K: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """Two products [M, COLUMNS] of the normed rows of `x`, float32: with rows `left` and `right` of a weight."""
    k, column = tl.arange(0, K), tl.arange(0, COLUMNS)
    real = (tokens < count)[:, None]
    x_at = x + tokens.to(tl.int64)[:, None] * WIDTH + k[None, :]
    left_at = left + column[:, None] * WIDTH + k[None, :]
    right_at = right + column[:, None] * WIDTH + k[None, :]
    one = tl.zeros((M, COLUMNS), tl.float32)
    two = tl.zeros((M, COLUMNS), tl.float32)
    squares = tl.zeros((M,), tl.float32)
    for start in range(0, WIDTH, K):
        value = tl.load(x_at + start, mask=real, other=0.0)
        wide = value.to(tl.float32)
        squares += tl.sum(wide * wide, 1)
        scaled = (wide * tl.load(norm + start + k).to(tl.float32)[None, :]).to(value.dtype)
        one = tl.dot(scaled, tl.trans(tl.load(left_at + start)), one, input_precision="ieee")
        two = tl.dot(scaled, tl.trans(tl.load(right_at + start)), two, input_precision="ieee")
    scale = tl.rsqrt(squares / WIDTH + eps)[:, None]
    return one * scale, two * scale


@triton.jit(do_not_specialize=["count"])
def _qkv_kernel(
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
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    M: tl.constexpr,
    COLUMNS: tl.constexpr,
    K: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """COLUMNS rotary pairs of one head for M tokens."""
    HALF: tl.constexpr = DIM // 2
    PARTS: tl.constexpr = HALF // COLUMNS
    head, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    row = head * DIM + part * COLUMNS
    release(LINKED)
    _bring(weight, row, COLUMNS, WIDTH, LINKED)
    _bring(weight, row + HALF, COLUMNS, WIDTH, LINKED)
    await_previous(LINKED)
    dtype = q_out.dtype.element_ty
    token = tl.program_id(1) * M + tl.arange(0, M)
    left = weight + row.to(tl.int64) * WIDTH
    one, two = _normed_pair(x, norm, left, left + HALF * WIDTH, eps, token, count, WIDTH, M, COLUMNS, K)
    x1, x2 = one.to(dtype), two.to(dtype)
    real = (token < count)[:, None]
    slot = tl.load(slots + token, mask=token < count, other=-1)
    cached = (slot >= 0)[:, None] & real
    d = (part * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    place = slot[:, None] * DIM + d
    if head < HEADS + KV_HEADS:
        angle = tl.load(positions + token, mask=token < count, other=0)[:, None] * DIM + d
        c1, c2 = tl.load(cos + angle), tl.load(cos + angle + HALF)
        s1, s2 = tl.load(sin + angle), tl.load(sin + angle + HALF)
        y1, y2 = turned(x1, x2, c1, s1), turned(x2, x1, c2, s2)
        if head < HEADS:
            q_at = q_out + (token[:, None] * HEADS + head) * DIM + d
            tl.store(q_at, y1, mask=real)
            tl.store(q_at + HALF, y2, mask=real)
        else:
            key_at = keys + (head - HEADS).to(tl.int64) * head_stride + place
            tl.store(key_at, y1, mask=cached)
            tl.store(key_at + HALF, y2, mask=cached)
    else:
        value_at = values + (head - HEADS - KV_HEADS).to(tl.int64) * head_stride + place
        tl.store(value_at, x1, mask=cached)
        tl.store(value_at + HALF, x2, mask=cached)


@triton.jit(do_not_specialize=["count"])
def _gate_kernel(
    x: tl.tensor,
    norm: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    M: tl.constexpr,
    COLUMNS: tl.constexpr,
    K: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """COLUMNS gated units for M tokens."""
    first = tl.program_id(0) * COLUMNS
    release(LINKED)
    _bring(weight, first, COLUMNS, WIDTH, LINKED)
    _bring(weight, first + INNER, COLUMNS, WIDTH, LINKED)
    await_previous(LINKED)
    dtype = out.dtype.element_ty
    token = tl.program_id(1) * M + tl.arange(0, M)
    left = weight + first.to(tl.int64) * WIDTH
    one, two = _normed_pair(x, norm, left, left + INNER * WIDTH, eps, token, count, WIDTH, M, COLUMNS, K)
    gate, up = one.to(dtype).to(tl.float32), two.to(dtype).to(tl.float32)
    opened = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    at = out + token.to(tl.int64)[:, None] * INNER + first + tl.arange(0, COLUMNS)[None, :]
    tl.store(at, (opened * up).to(dtype), mask=(token < count)[:, None])


@triton.jit(do_not_specialize=["count"])
def _add_kernel(
    x: tl.tensor,
    weight: tl.tensor,
    residual: tl.tensor,
    count: tl.tensor,
    INNER: tl.constexpr,
    WIDTH: tl.constexpr,
    M: tl.constexpr,
    COLUMNS: tl.constexpr,
    K: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """residual += x @ weight^T for COLUMNS columns of M tokens; `x` [count, INNER], `residual` [count, WIDTH]."""
    first = tl.program_id(0) * COLUMNS
    release(LINKED)
    _bring(weight, first, COLUMNS, INNER, LINKED)
    await_previous(LINKED)
    token, k = tl.program_id(1) * M + tl.arange(0, M), tl.arange(0, K)
    column, real = tl.arange(0, COLUMNS), (token < count)[:, None]
    x_at = x + token.to(tl.int64)[:, None] * INNER + k[None, :]
    weight_at = weight + (first + column).to(tl.int64)[:, None] * INNER + k[None, :]
    total = tl.zeros((M, COLUMNS), tl.float32)
    for start in range(0, INNER, K):
        value = tl.load(x_at + start, mask=real, other=0.0)
        total = tl.dot(value, tl.trans(tl.load(weight_at + start)), total, input_precision="ieee")
    at = residual + token.to(tl.int64)[:, None] * WIDTH + first + column[None, :]
    old = tl.load(at, mask=real, other=0.0)
    tl.store(at, (total.to(old.dtype).to(tl.float32) + old.to(tl.float32)).to(old.dtype), mask=real)


@dataclass(frozen=True, slots=True)
class NarrowConfig:
    """How launches are cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    columns: int = 16
    """Columns (pairs of them where two belong together) of a program."""
    stages: int = 8
    warps: int = 0
    """0: 2 for up to 16 tokens, 4 for more."""
    linked: bool = False
    """Programmatic dependent launch; a GPU of capability 9.0 or more."""


class Narrow:
    """The four launches for N tokens of a model whose widths are multiples of 64."""

    MOST = 64
    """Tokens beyond which separate products are faster."""

    def __init__(self, tokens: int, config: NarrowConfig) -> None:
        self.tokens, self.config = tokens, config
        self._m = min(64, padded(tokens, 16))
        self._blocks = -(-tokens // self._m)

    def qkv(
        self, x: Tensor, norm: Tensor, eps: float, weight: Tensor, cos: Tensor, sin: Tensor, positions: Tensor,
        slots: Tensor, keys: Tensor, values: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """Rotated queries [N, heads, head_dim] of the residual stream `x` [N, hidden]; keys and values go to the pool.

        `cos`, `sin` [width, head_dim] by position; the rest as in `fused.rotate_and_store`.
        """
        kv_heads, _, dim = keys.shape
        out = torch.empty(self.tokens, heads, dim, dtype=x.dtype, device=x.device)
        columns = min(self.config.columns, dim // 2)
        _qkv_kernel[((heads + 2 * kv_heads) * (dim // 2 // columns), self._blocks)](
            x, norm, weight, cos, sin, positions, slots, out, keys, values, eps, keys.stride(0), self.tokens,
            WIDTH=x.shape[1], HEADS=heads, KV_HEADS=kv_heads, DIM=dim, **self._options(columns),
        )  # fmt: skip
        return out

    def gated(self, x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
        """silu(gate) * up [N, inner] of the normed `x` [N, hidden]; `weight` [2 * inner, hidden], the gates first."""
        inner, columns = weight.shape[0] // 2, self.config.columns
        out = torch.empty(self.tokens, inner, dtype=x.dtype, device=x.device)
        _gate_kernel[(inner // columns, self._blocks)](
            x, norm, weight, out, eps, self.tokens, WIDTH=x.shape[1], INNER=inner, **self._options(columns)
        )
        return out

    def add(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, inner] @ weight^T."""
        columns = self.config.columns
        _add_kernel[(weight.shape[0] // columns, self._blocks)](
            x, weight, residual, self.tokens, INNER=x.shape[1], WIDTH=weight.shape[0], **self._options(columns)
        )

    def _options(self, columns: int) -> dict[str, object]:
        config = self.config
        options: dict[str, object] = {
            "M": self._m, "COLUMNS": columns, "K": K_BLOCK,
            "num_warps": config.warps or (2 if self._m == 16 else 4), "num_stages": config.stages,
        }  # fmt: skip
        return options | launch_options(config.linked)

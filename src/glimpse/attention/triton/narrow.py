"""Linears of narrow models with what surrounds them, for a few tokens: norm, product and what follows in one launch.

A model of some hundred million parameters spends its decode steps in launches and latencies, not in bytes. Here a layer
takes four launches beside its attention: norm + q/k/v + rotation + cache write, output + residual, norm + gate/up +
silu * mul, down + residual. A program holds its few rows of the weight in registers and takes the tokens one after
another; it rounds where the plain decoder rounds. Linked launches (`linked`) read their weights while the kernel before
still runs.
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


@triton.jit
def _weights(
    weight: tl.tensor, first: tl.tensor, WIDTH: tl.constexpr, PAD: tl.constexpr, COLUMNS: tl.constexpr
) -> tl.tensor:
    """[COLUMNS, PAD]: rows first .. first + COLUMNS - 1 of a weight [any, WIDTH]."""
    k = tl.arange(0, PAD)
    row = first + tl.arange(0, COLUMNS)
    return tl.load(weight + row.to(tl.int64)[:, None] * WIDTH + k[None, :], mask=(k < WIDTH)[None, :], other=0.0)


@triton.jit
def _product(weights: tl.tensor, x: tl.tensor) -> tl.tensor:
    """weights [COLUMNS, PAD] times x [PAD] float32, rounded to the weights' dtype."""
    return tl.sum(weights.to(tl.float32) * x[None, :], 1).to(weights.dtype)


@triton.jit
def _normed(
    x: tl.tensor, norm: tl.tensor, token: tl.tensor, eps: tl.tensor, WIDTH: tl.constexpr, PAD: tl.constexpr
) -> tl.tensor:
    """Row `token` of `x` after RMSNorm, float32 numbers that its dtype can hold. `norm` [PAD]: the norm's weight."""
    k = tl.arange(0, PAD)
    value = tl.load(x + token * WIDTH + k, mask=k < WIDTH, other=0.0)
    wide = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / WIDTH + eps)
    return ((wide * scale).to(value.dtype).to(tl.float32) * norm.to(tl.float32)).to(value.dtype).to(tl.float32)


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
    PAD: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """COLUMNS rotary pairs of one head."""
    HALF: tl.constexpr = DIM // 2
    PARTS: tl.constexpr = HALF // COLUMNS
    head, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    row = head * DIM + part * COLUMNS
    left = _weights(weight, row, WIDTH, PAD, COLUMNS)
    right = _weights(weight, row + HALF, WIDTH, PAD, COLUMNS)
    k, d = tl.arange(0, PAD), part * COLUMNS + tl.arange(0, COLUMNS)
    scale = tl.load(norm + k, mask=k < WIDTH, other=0.0)
    await_previous(LINKED)
    release(LINKED)
    for token in range(count):
        normed = _normed(x, scale, token, eps, WIDTH, PAD)
        x1, x2 = _product(left, normed), _product(right, normed)
        slot = tl.load(slots + token)
        place = slot * DIM + d
        stored = (slot >= 0) & (d >= 0)
        if head < HEADS + KV_HEADS:
            angle = tl.load(positions + token) * DIM + d
            y1 = turned(x1, x2, tl.load(cos + angle), tl.load(sin + angle))
            y2 = turned(x2, x1, tl.load(cos + angle + HALF), tl.load(sin + angle + HALF))
            if head < HEADS:
                q_at = q_out + (token * HEADS + head) * DIM + d
                tl.store(q_at, y1)
                tl.store(q_at + HALF, y2)
            else:
                key_at = keys + (head - HEADS).to(tl.int64) * head_stride + place
                tl.store(key_at, y1, mask=stored)
                tl.store(key_at + HALF, y2, mask=stored)
        else:
            value_at = values + (head - HEADS - KV_HEADS).to(tl.int64) * head_stride + place
            tl.store(value_at, x1, mask=stored)
            tl.store(value_at + HALF, x2, mask=stored)


@triton.jit(do_not_specialize=["count"])
def _gate_kernel(
    x: tl.tensor,
    norm: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    PAD: tl.constexpr,
    INNER: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """COLUMNS gated units."""
    first = tl.program_id(0) * COLUMNS
    left = _weights(weight, first, WIDTH, PAD, COLUMNS)
    right = _weights(weight, first + INNER, WIDTH, PAD, COLUMNS)
    k = tl.arange(0, PAD)
    scale = tl.load(norm + k, mask=k < WIDTH, other=0.0)
    await_previous(LINKED)
    release(LINKED)
    for token in range(count):
        normed = _normed(x, scale, token, eps, WIDTH, PAD)
        gate, up = _product(left, normed).to(tl.float32), _product(right, normed).to(tl.float32)
        opened = (gate / (1.0 + tl.exp(-gate))).to(left.dtype).to(tl.float32)
        tl.store(out + token * INNER + first + tl.arange(0, COLUMNS), (opened * up).to(left.dtype))


@triton.jit(do_not_specialize=["count"])
def _add_kernel(
    x: tl.tensor,
    weight: tl.tensor,
    residual: tl.tensor,
    count: tl.tensor,
    INNER: tl.constexpr,
    PAD: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """residual += x @ weight^T in COLUMNS columns; `x` [count, INNER], `residual` [count, WIDTH]."""
    first = tl.program_id(0) * COLUMNS
    weights = _weights(weight, first, INNER, PAD, COLUMNS)
    k = tl.arange(0, PAD)
    await_previous(LINKED)
    release(LINKED)
    for token in range(count):
        value = tl.load(x + token * INNER + k, mask=k < INNER, other=0.0)
        at = residual + token * WIDTH + first + tl.arange(0, COLUMNS)
        total = _product(weights, value.to(tl.float32)).to(tl.float32) + tl.load(at).to(tl.float32)
        tl.store(at, total.to(weights.dtype))


@dataclass(frozen=True, slots=True)
class NarrowConfig:
    """How launches are cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    pairs: int = 4
    """Pairs of weight rows of a program of the q/k/v launch."""
    gates: int = 8
    """Pairs of weight rows of a program of the gate launch."""
    columns: int = 4
    """Weight rows of a program of the launches that add to the residual stream."""
    warps: int = 4
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""


class Narrow:
    """The four launches for N tokens of a model whose widths are multiples of 64."""

    MOST = 4
    """Tokens beyond which separate products are faster."""

    def __init__(self, tokens: int, config: NarrowConfig) -> None:
        self.tokens, self.config = tokens, config
        self._options = {"num_warps": config.warps, **launch_options(config.linked)}

    def qkv(
        self, x: Tensor, norm: Tensor, eps: float, weight: Tensor, cos: Tensor, sin: Tensor, positions: Tensor,
        slots: Tensor, keys: Tensor, values: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """Rotated queries [N, heads, head_dim] of the residual stream `x` [N, hidden]; keys and values go to the pool.

        `cos`, `sin` [width, 1, head_dim] by position; the rest as in `fused.rotate_and_store`.
        """
        kv_heads, _, dim = keys.shape
        out = torch.empty(self.tokens, heads, dim, dtype=x.dtype, device=x.device)
        columns, width = min(self.config.pairs, dim // 2), x.shape[1]
        _qkv_kernel[((heads + 2 * kv_heads) * (dim // 2 // columns),)](
            x, norm, weight, cos, sin, positions, slots, out, keys, values, eps, keys.stride(0), self.tokens,
            WIDTH=width, PAD=padded(width), HEADS=heads, KV_HEADS=kv_heads, DIM=dim, COLUMNS=columns, **self._options,
        )  # fmt: skip
        return out

    def gated(self, x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
        """silu(gate) * up [N, inner] of the normed `x` [N, hidden]; `weight` [2 * inner, hidden], the gates first."""
        inner, columns, width = weight.shape[0] // 2, self.config.gates, x.shape[1]
        out = torch.empty(self.tokens, inner, dtype=x.dtype, device=x.device)
        _gate_kernel[(inner // columns,)](
            x, norm, weight, out, eps, self.tokens, WIDTH=width, PAD=padded(width), INNER=inner, COLUMNS=columns,
            **self._options,
        )  # fmt: skip
        return out

    def add(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, inner] @ weight^T."""
        columns, (width, inner) = self.config.columns, weight.shape
        _add_kernel[(width // columns,)](
            x, weight, residual, self.tokens, INNER=inner, PAD=padded(inner), WIDTH=width, COLUMNS=columns,
            **self._options,
        )  # fmt: skip

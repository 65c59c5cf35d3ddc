"""What happens between the matrix products of a layer, one kernel each: norm, rotation and cache write, gated unit.

Each rounds where the plain decoder rounds (`glimpse.model.decoder`), so that both give the same bits but for the last.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor, empty, empty_like

from glimpse.attention.triton.linked import await_previous, launch_options, release
from glimpse.attention.triton.sizes import padded

GATED_BLOCK = 1024
HEAD_BLOCK = 4


@triton.jit
def _norm_kernel(
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    SIZE: tl.constexpr,
    SIZE_PAD: tl.constexpr,
    RESIDUAL: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    await_previous(LINKED)
    release(LINKED)
    column = tl.arange(0, SIZE_PAD)
    inside = column < SIZE
    at = tl.program_id(0).to(tl.int64) * SIZE + column
    value = tl.load(x + at, mask=inside, other=0.0)
    dtype = value.dtype
    value = value.to(tl.float32)
    if RESIDUAL:
        value = (value + tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)).to(dtype)
        tl.store(residual + at, value, mask=inside)
        value = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / SIZE + eps)
    normed = (value * scale).to(dtype).to(tl.float32) * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, normed.to(dtype), mask=inside)


def rms_norm(
    x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None, out: Tensor | None = None, *,
    linked: bool = False,
) -> Tensor:  # fmt: skip
    """RMSNorm of `x` [N, size], or of `residual` + `x`, which is then left in `residual` [N, size].

    `linked`: programmatic dependent launch (`linked`).
    """
    out = empty_like(x) if out is None else out
    size = x.shape[1]
    _norm_kernel[(x.shape[0],)](
        x, residual, weight, out, eps, SIZE=size, SIZE_PAD=padded(size), RESIDUAL=residual is not None,
        num_warps=4 if size <= 2048 else 8, **launch_options(linked),
    )  # fmt: skip
    return out


@triton.jit
def _normed(
    x1: tl.tensor, x2: tl.tensor, w1: tl.tensor, w2: tl.tensor, eps: tl.tensor, DIM: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Both halves of heads, RMS-normed over the head and scaled by its weight."""
    f1, f2 = x1.to(tl.float32), x2.to(tl.float32)
    scale = tl.rsqrt((tl.sum(f1 * f1, 1) + tl.sum(f2 * f2, 1)) / DIM + eps)[:, None]
    n1 = (f1 * scale).to(x1.dtype).to(tl.float32) * w1.to(tl.float32)
    n2 = (f2 * scale).to(x1.dtype).to(tl.float32) * w2.to(tl.float32)
    return n1.to(x1.dtype), n2.to(x1.dtype)


@triton.jit
def turned(x: tl.tensor, other: tl.tensor, cos: tl.tensor, sin: tl.tensor) -> tl.tensor:
    """x * cos + other * sin, the first product rounded to the dtype of x as the plain decoder does."""
    product = (x.to(tl.float32) * cos.to(tl.float32)).to(x.dtype).to(tl.float32)
    return (product + other.to(tl.float32) * sin.to(tl.float32)).to(x.dtype)


@triton.jit
def _rotary_kernel(
    qkv: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    positions: tl.tensor,
    slots: tl.tensor,
    q_out: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    norm: tl.tensor,
    eps: tl.tensor,
    qkv_stride: tl.tensor,
    out_stride: tl.tensor,
    head_stride: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    HALF_PAD: tl.constexpr,
    BLOCK: tl.constexpr,
    NORM: tl.constexpr,
    TABLE: tl.constexpr,
) -> None:
    HALF: tl.constexpr = DIM // 2
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, HALF_PAD)
    half = d < HALF
    there = (head < HEADS + 2 * KV_HEADS)[:, None] & half[None, :]
    at = qkv + token * qkv_stride + head[:, None] * DIM + d[None, :]
    x1 = tl.load(at, mask=there, other=0.0)
    x2 = tl.load(at + HALF, mask=there, other=0.0)
    is_q = (head < HEADS)[:, None] & half[None, :]
    is_k = ((head >= HEADS) & (head < HEADS + KV_HEADS))[:, None] & half[None, :]
    is_v = (head >= HEADS + KV_HEADS)[:, None] & there
    slot = tl.load(slots + token)
    cached = slot >= 0
    key_at = (head - HEADS).to(tl.int64)[:, None] * head_stride + slot * DIM + d[None, :]
    value_at = key_at - KV_HEADS * head_stride
    tl.store(values + value_at, x1, mask=is_v & cached)
    tl.store(values + value_at + HALF, x2, mask=is_v & cached)
    if NORM:
        weight_at = norm + head[:, None] * DIM + d[None, :]
        rotated = is_q | is_k
        w1 = tl.load(weight_at, mask=rotated, other=0.0)
        w2 = tl.load(weight_at + HALF, mask=rotated, other=0.0)
        x1, x2 = _normed(x1, x2, w1, w2, eps, DIM)
    angle = token * DIM + d
    if TABLE:
        angle = tl.load(positions + token) * DIM + d
    c1, c2 = tl.load(cos + angle, mask=half, other=0.0), tl.load(cos + angle + HALF, mask=half, other=0.0)
    s1, s2 = tl.load(sin + angle, mask=half, other=0.0), tl.load(sin + angle + HALF, mask=half, other=0.0)
    y1, y2 = turned(x1, x2, c1[None, :], s1[None, :]), turned(x2, x1, c2[None, :], s2[None, :])
    q_at = q_out + token * out_stride + head[:, None] * DIM + d[None, :]
    tl.store(q_at, y1, mask=is_q)
    tl.store(q_at + HALF, y2, mask=is_q)
    tl.store(keys + key_at, y1, mask=is_k & cached)
    tl.store(keys + key_at + HALF, y2, mask=is_k & cached)


def rotate_and_store(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    slots: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
    *,
    out: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    positions: Tensor | None = None,
) -> Tensor:
    """Rotates queries and keys, writes keys and values into one layer of the pool, and returns the queries.

    `qkv` [N, heads + 2 * kv_heads, head_dim], each token's heads contiguous. `cos`, `sin` [N, 1, head_dim] as in
    `Rotation`; with `positions` [N] int64 they are tables [width, 1, head_dim]. `slots` [N] int64; tokens with a
    negative one are padding and are not stored. `keys`, `values` [kv_heads, slots, head_dim]. `norm` [heads + kv_heads,
    head_dim]: RMSNorm of queries and keys first. The queries
    [N, heads, head_dim] go to `out`, which may be the front of `qkv` itself; None: a new tensor.
    """
    tokens, every, dim = qkv.shape
    out = empty(tokens, heads, dim, dtype=qkv.dtype, device=qkv.device) if out is None else out
    _rotary_kernel[(tokens, -(-every // HEAD_BLOCK))](
        qkv, cos, sin, positions, slots, out, keys, values, norm, eps, qkv.stride(0), out.stride(0), keys.stride(0),
        HEADS=heads, KV_HEADS=keys.shape[0], DIM=dim, HALF_PAD=padded(dim // 2), BLOCK=HEAD_BLOCK,
        NORM=norm is not None, TABLE=positions is not None, num_warps=2,
    )  # fmt: skip
    return out


@triton.jit
def _gated_kernel(gate_up: tl.tensor, out: tl.tensor, INNER: tl.constexpr, BLOCK: tl.constexpr) -> None:
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < INNER
    gate = tl.load(gate_up + token * 2 * INNER + column, mask=inside, other=0.0)
    up = tl.load(gate_up + token * 2 * INNER + INNER + column, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    opened = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    tl.store(out + token * INNER + column, (opened * up.to(tl.float32)).to(gate.dtype), mask=inside)


def silu_mul(gate_up: Tensor, out: Tensor | None = None) -> Tensor:
    """silu(gate) * up [N, inner] of `gate_up` [N, 2 * inner], the gates first."""
    tokens, inner = gate_up.shape[0], gate_up.shape[1] // 2
    out = empty(tokens, inner, dtype=gate_up.dtype, device=gate_up.device) if out is None else out
    block = min(GATED_BLOCK, padded(inner))
    _gated_kernel[(tokens, -(-inner // block))](gate_up, out, INNER=inner, BLOCK=block, num_warps=4)
    return out

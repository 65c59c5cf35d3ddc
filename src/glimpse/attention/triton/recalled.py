"""Attention of draft rows: one query over selected slots, wherever they lie, and over everything from a position on.

One launch: the pieces of a row and key/value head leave partial results, and the last of them to finish joins them. A
counter per row and head says who that is; the last one sets it back, so that the next launch finds it at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.linked import await_previous, launch_options, release
from glimpse.attention.triton.paged import LOG2E, slots_at, softmax_step
from glimpse.attention.triton.sizes import links, padded, processors
from glimpse.errors import ArgumentError


@triton.jit(do_not_specialize=["selected_row", "selected_head", "table_stride"])
def recalled_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    selected: tl.tensor,
    counts: tl.tensor,
    bases: tl.tensor,
    lengths: tl.tensor,
    table: tl.tensor,
    part_out: tl.tensor,
    part_lse: tl.tensor,
    arrived: tl.tensor,
    out: tl.tensor,
    q_stride: tl.tensor,
    head_stride: tl.tensor,
    selected_row: tl.tensor,
    selected_head: tl.tensor,
    table_stride: tl.tensor,
    scale: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    M: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """One piece of one row and key/value head; see `Recalled` for the tensors."""
    await_previous(LINKED)
    release(LINKED)
    piece, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row)
    base, count = tl.load(bases + row), tl.load(counts + row)
    # The row reads `reads` places: first the selected ones, then the tail.
    reads = tl.where(length > 0, count + length - base, 0)
    share = (reads + PIECES * BLOCK - 1) // (PIECES * BLOCK) * BLOCK
    pieces = (reads + share - 1) // tl.maximum(share, 1)
    m, d = tl.arange(0, M), tl.arange(0, DIM_PAD)
    wanted = (m < GROUP)[:, None] & (d < DIM)[None, :]
    heads = row * (KV_HEADS * GROUP) + head * GROUP
    out_at = out + (heads + m)[:, None] * DIM + d[None, :]
    if (piece == 0) & (reads == 0):
        tl.store(out_at, tl.zeros((M, DIM_PAD), tl.float32).to(out.dtype.element_ty), mask=wanted)
    if piece >= pieces:
        return
    begin, end = piece * share, tl.minimum(piece * share + share, reads)
    q_at = q + row * q_stride + (head * GROUP + m)[:, None] * DIM + d[None, :]
    q_block = tl.load(q_at, mask=wanted, other=0.0)
    selected += row.to(tl.int64) * selected_row + head * selected_head
    table += row * table_stride
    keys += head.to(tl.int64) * head_stride
    values += head.to(tl.int64) * head_stride

    peak = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    mixed = tl.zeros((M, DIM_PAD), tl.float32)
    for start in range(begin, end, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside, chosen = index < end, index < count
        slot = tl.load(selected + index, mask=inside & chosen, other=0).to(tl.int64)
        tail = inside & (index >= count)
        slot += slots_at(table, tl.where(tail, base + index - count, 0), tail, PAGE)
        place = slot[:, None] * DIM + d[None, :]
        read = inside[:, None] & (d < DIM)[None, :]
        k = tl.load(keys + place, mask=read, other=0.0)
        v = tl.load(values + place, mask=read, other=0.0)
        scores = tl.dot(q_block, tl.trans(k), input_precision="ieee")
        scores = tl.where(inside[None, :], scores, float("-inf"))
        weights, fade, peak, total = softmax_step(scores, scale, peak, total)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * fade[:, None], input_precision="ieee")

    mixed = mixed / total[:, None]
    if PIECES == 1:
        tl.store(out_at, mixed.to(out.dtype.element_ty), mask=wanted)
    else:
        place = ((row * KV_HEADS + head) * PIECES).to(tl.int64) * GROUP
        part = place + piece * GROUP + m
        tl.store(part_lse + part, peak + tl.log2(total), mask=m < GROUP)
        tl.store(part_out + part[:, None] * DIM + d[None, :], mixed, mask=wanted)
        # Every thread's stores come before the count, and the count before the last one's loads.
        tl.debug_barrier()
        before = tl.atomic_add(arrived + row * KV_HEADS + head, 1, sem="acq_rel", scope="gpu")
        if before == pieces - 1:
            tl.debug_barrier()
            tl.store(arrived + row * KV_HEADS + head, 0)
            joined = _join(part_out, part_lse, place, pieces, GROUP, GROUP_PAD, DIM, DIM_PAD, PIECES)
            g = tl.arange(0, GROUP_PAD)
            fits = (g < GROUP)[:, None] & (d < DIM)[None, :]
            tl.store(out + (heads + g)[:, None] * DIM + d[None, :], joined.to(out.dtype.element_ty), mask=fits)


@triton.jit
def _join(
    part_out: tl.tensor,
    part_lse: tl.tensor,
    place: tl.tensor,
    pieces: tl.tensor,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PIECES: tl.constexpr,
) -> tl.tensor:
    """[GROUP_PAD, DIM_PAD]: the pieces of one row and head, weighted by their log-sum-exps; read past the L1 cache."""
    s, g, d = tl.arange(0, PIECES), tl.arange(0, GROUP_PAD), tl.arange(0, DIM_PAD)
    part = place + s[:, None] * GROUP + g[None, :]
    there = (s < pieces)[:, None] & (g < GROUP)[None, :]
    lse = tl.load(part_lse + part, mask=there, other=float("-inf"), cache_modifier=".cg")
    peak = tl.max(lse, 0)
    weight = tl.exp2(lse - tl.where(peak == float("-inf"), 0.0, peak)[None, :])
    weight = weight / tl.maximum(tl.sum(weight, 0), 1e-30)[None, :]
    wanted = there[:, :, None] & (d < DIM)[None, None, :]
    rows = tl.load(part_out + part[:, :, None] * DIM + d[None, None, :], mask=wanted, other=0.0, cache_modifier=".cg")
    return tl.sum(rows * weight[:, :, None], 0)


FEW = 16
"""Rows times key/value heads that leave most of the GPU idle."""


@dataclass(frozen=True, slots=True)
class RecalledConfig:
    """How a launch is cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    block: int = 64
    pieces: int = 4
    """Programs a row and key/value head, a power of two; short rows use fewer."""
    warps: int = 4
    stages: int = 5
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""

    @classmethod
    def fit(cls, shape: HeadShape, rows: int, device: torch.device) -> RecalledConfig:
        """What measured best on an H200 for some 500 places (docs/performance-gpu.md)."""
        segments, linked = rows * shape.kv_heads, links(device)
        if segments <= FEW:
            return cls(block=64, pieces=16, stages=3, linked=linked)
        if segments < processors(device):
            return cls(block=128, pieces=2 if shape.head_dim > 64 else 4, linked=linked)
        return cls(block=32 if shape.head_dim > 64 else 128, pieces=1, linked=linked)


class Recalled:
    """Attention of `rows` draft rows of one token each. Its buffers must outlive a graph that it was captured in."""

    def __init__(
        self,
        shape: HeadShape,
        rows: int,
        page_size: int,
        device: torch.device | str,
        config: RecalledConfig | None = None,
    ) -> None:
        """Raises ArgumentError when the number of pieces is no power of two."""
        self.shape, self.rows, self.page_size = shape, rows, page_size
        self.config = config or RecalledConfig.fit(shape, rows, torch.device(device))
        pieces = self.config.pieces
        if pieces < 1 or pieces & (pieces - 1):
            raise ArgumentError(f"{pieces} pieces cannot be joined in one block; give a power of two")
        parts = (rows, shape.kv_heads, pieces, shape.group)
        self.part_lse = torch.empty(parts, dtype=torch.float32, device=device)
        self.part_out = torch.empty(*parts, shape.head_dim, dtype=torch.float32, device=device)
        self.arrived = torch.zeros(rows, shape.kv_heads, dtype=torch.int32, device=device)

    def __call__(
        self,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        selected: Tensor,
        counts: Tensor,
        bases: Tensor,
        lengths: Tensor,
        table: Tensor,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Attention of one layer: [rows, heads, head_dim], like `q`, scale 1 / sqrt(head_dim).

        Row r reads the slots `selected` [rows, kv_heads, B] int32 (last dimension contiguous), the first `counts`
        [rows] of each head, and then its positions from `bases` [rows] up to `lengths` [rows] through `table` [rows,
        pages], int32 all. The length counts its own token, whose keys and values are in the pool already. 0: idle.
        Each token's heads lie together in `q`; all else is contiguous.
        """
        out = q.new_empty(q.shape) if out is None else out
        shape, config = self.shape, self.config
        recalled_kernel[(config.pieces, shape.kv_heads, self.rows)](
            q, keys, values, selected, counts, bases, lengths, table, self.part_out, self.part_lse, self.arrived, out,
            q.stride(0), keys.stride(0), selected.stride(0), selected.stride(1), table.stride(0),
            float(shape.head_dim**-0.5 * LOG2E.value),
            KV_HEADS=shape.kv_heads, GROUP=shape.group, GROUP_PAD=padded(shape.group), M=padded(shape.group, 16),
            DIM=shape.head_dim, DIM_PAD=padded(shape.head_dim, 16), PAGE=self.page_size, BLOCK=config.block,
            PIECES=config.pieces, num_warps=config.warps, num_stages=config.stages,
            **launch_options(config.linked),
        )  # fmt: skip
        return out

"""Attention of draft rows: one query over selected slots, wherever they lie, and over everything from a position on.

One launch: the pieces of a row and key/value head leave partial results, and the last of them to finish joins them.
A program fetches the first block of its piece before it waits for the kernel before (`linked`): what is selected was
final long ago. The tail, which holds the newest token, comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.join import LOG2E, is_last, join
from glimpse.attention.triton.linked import await_previous, launch_options, release
from glimpse.attention.triton.paged import slots_at, softmax_step
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.sizes import links, padded, processors
from glimpse.errors import ArgumentError

TAIL = 16
"""Positions of the tail that are read at a time: drafts are short."""


@triton.jit
def _fetch(
    keys: tl.tensor, values: tl.tensor, slot: tl.tensor, inside: tl.tensor, DIM: tl.constexpr, DIM_PAD: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Keys and values [BLOCK, DIM_PAD] at `slot` [BLOCK] int64; zeros outside."""
    d = tl.arange(0, DIM_PAD)
    place = slot[:, None] * DIM + d[None, :]
    read = inside[:, None] & (d < DIM)[None, :]
    return tl.load(keys + place, mask=read, other=0.0), tl.load(values + place, mask=read, other=0.0)


@triton.jit
def _step(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    inside: tl.tensor,
    scale: tl.tensor,
    peak: tl.tensor,
    total: tl.tensor,
    mixed: tl.tensor,
) -> tuple[tl.tensor, ...]:
    """(peak, total, mixed) with one more block."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    scores = tl.where(inside[None, :], scores, float("-inf"))
    weights, fade, peak, total = softmax_step(scores, scale, peak, total)
    return peak, total, tl.dot(weights.to(v.dtype), v, mixed * fade[:, None], input_precision="ieee")


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
    firsts: tl.tensor,
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
    TAIL: tl.constexpr,
    PIECES: tl.constexpr,
    PLACES: tl.constexpr,
    SHARE: tl.constexpr,
    RAGGED: tl.constexpr,
    LINKED: tl.constexpr,
) -> None:
    """One piece of one row and key/value head; see `Recalled` for the tensors."""
    piece, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    base, count = tl.load(bases + row), tl.load(counts + row)
    selected += row.to(tl.int64) * selected_row + head * selected_head
    keys += head.to(tl.int64) * head_stride
    values += head.to(tl.int64) * head_stride
    # Shares follow the places, not the count: the slots are asked for before the count is known.
    begin = piece * SHARE
    index = begin + tl.arange(0, BLOCK)
    slot = tl.load(selected + index, mask=index < PLACES, other=0)
    pieces = tl.maximum((count + SHARE - 1) // SHARE, 1)
    if piece >= pieces:
        await_previous(LINKED)
        release(LINKED)
        return
    end = tl.minimum(begin + SHARE, count)
    inside = index < end
    slot = tl.where(inside, slot, 0).to(tl.int64)
    k, v = _fetch(keys, values, slot, inside, DIM, DIM_PAD)
    await_previous(LINKED)
    release(LINKED)

    # The rows' lengths are of this very step: a chain of early launches may get here before they are written.
    length = tl.load(lengths + row)
    token, mine = row, row >= 0
    if RAGGED:
        # A row that does not draft has tokens too, which are not this kernel's.
        token, mine = tl.load(firsts + row), length > 0
        end = tl.where(mine, end, 0)
    m, d = tl.arange(0, M), tl.arange(0, DIM_PAD)
    wanted = (m < GROUP)[:, None] & (d < DIM)[None, :]
    q_at = q + token * q_stride + (head * GROUP + m)[:, None] * DIM + d[None, :]
    q_block = tl.load(q_at, mask=wanted, other=0.0)
    peak = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    mixed = tl.zeros((M, DIM_PAD), tl.float32)
    peak, total, mixed = _step(q_block, k, v, inside, scale, peak, total, mixed)
    for start in range(begin + BLOCK, end, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < end
        slot = tl.load(selected + index, mask=inside, other=0).to(tl.int64)
        k, v = _fetch(keys, values, slot, inside, DIM, DIM_PAD)
        peak, total, mixed = _step(q_block, k, v, inside, scale, peak, total, mixed)
    if piece == pieces - 1:
        for start in range(base, length, TAIL):
            position = start + tl.arange(0, TAIL)
            own = slots_at(table + row * table_stride, position, position < length, PAGE)
            new_k, new_v = _fetch(keys, values, own, position < length, DIM, DIM_PAD)
            peak, total, mixed = _step(q_block, new_k, new_v, position < length, scale, peak, total, mixed)

    found = (total > 0) & (length > 0)
    mixed = tl.where(found[:, None], mixed / tl.where(found, total, 1.0)[:, None], 0.0)
    heads = token * (KV_HEADS * GROUP) + head * GROUP
    if pieces == 1:
        tl.store(out + (heads + m)[:, None] * DIM + d[None, :], mixed.to(out.dtype.element_ty), mask=wanted & mine)
    else:
        place = ((row * KV_HEADS + head) * PIECES).to(tl.int64) * GROUP
        part = place + piece * GROUP + m
        tl.store(part_lse + part, tl.where(found, peak + tl.log2(total), float("-inf")), mask=m < GROUP)
        tl.store(part_out + part[:, None] * DIM + d[None, :], mixed, mask=wanted)
        if is_last(arrived + row * KV_HEADS + head, pieces):
            _, joined = join(part_out, part_lse, place, GROUP, pieces, GROUP, GROUP_PAD, DIM, DIM_PAD, PIECES)
            g = tl.arange(0, GROUP_PAD)
            fits = (g < GROUP)[:, None] & (d < DIM)[None, :] & mine
            tl.store(out + (heads + g)[:, None] * DIM + d[None, :], joined.to(out.dtype.element_ty), mask=fits)


@dataclass(frozen=True, slots=True)
class RecalledConfig:
    """How a launch is cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    block: int = 64
    pieces: int = 4
    """Programs a row and key/value head, a power of two; short rows use fewer."""
    warps: int = 4
    stages: int = 3
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""

    @classmethod
    def fit(cls, shape: HeadShape, rows: int, device: torch.device) -> RecalledConfig:
        """What measured best on an H200 for some 500 places (docs/performance-gpu.md)."""
        segments, linked = rows * shape.kv_heads, links(device)
        if 2 * segments < processors(device):
            return cls(block=128, pieces=4, linked=linked)
        if segments < 2 * processors(device):
            return cls(block=128, pieces=2, stages=5 if shape.head_dim <= 64 else 3, linked=linked)
        return cls(block=64, pieces=1, linked=linked)


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
        ragged: Ragged | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Attention of one layer: [rows, heads, head_dim], like `q`, scale 1 / sqrt(head_dim).

        Row r reads the slots `selected` [rows, kv_heads, B] int32 (last dimension contiguous), the first `counts`
        [rows] of each head, and then its positions from `bases` [rows] up to `lengths` [rows] through `table` [rows,
        pages], int32 all. The length counts its own token, whose keys and values are in the pool already. 0: idle.
        `ragged`: `q` and the result are [N, heads, head_dim] instead, each row's token where that says, and idle rows
        are passed over.
        Each token's heads lie together in `q`; all else is contiguous. Linked, the kernel launched just before may
        write `q`, `out` and the tail's keys and values, and nothing else that is read here: a selection must be
        followed by another launch first.
        """
        out = q.new_empty(q.shape) if out is None else out
        shape, config, places = self.shape, self.config, selected.shape[-1]
        recalled_kernel[(config.pieces, shape.kv_heads, self.rows)](
            q, keys, values, selected, counts, bases, lengths, table, None if ragged is None else ragged.firsts,
            self.part_out, self.part_lse, self.arrived, out,
            q.stride(0), keys.stride(0), selected.stride(0), selected.stride(1), table.stride(0),
            float(shape.head_dim**-0.5 * LOG2E.value),
            KV_HEADS=shape.kv_heads, GROUP=shape.group, GROUP_PAD=padded(shape.group), M=padded(shape.group, 16),
            DIM=shape.head_dim, DIM_PAD=padded(shape.head_dim, 16), PAGE=self.page_size, BLOCK=config.block, TAIL=TAIL,
            PIECES=config.pieces, PLACES=places, SHARE=-(-places // (config.pieces * config.block)) * config.block,
            RAGGED=ragged is not None, num_warps=config.warps, num_stages=config.stages,
            **launch_options(config.linked),
        )  # fmt: skip
        return out

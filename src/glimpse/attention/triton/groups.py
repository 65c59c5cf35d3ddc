"""Attention of mask groups that ride on verify rows: over pages as far as the token they stand behind, and themselves.

A row with drafts has the same number of groups on every step, group j behind its token j (the last committed one, then
the drafts). A mask of group j reads the text up to that token and its whole group, later masks included. The text is
read once for all groups of a row, by `Paged` with a bit for each of the row's own tokens; keys and values of the masks
come from buffers of their own, so the cache never holds them. `glimpse.attention.groups` says the same in plain torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape, Paged
from glimpse.attention.triton.join import LOG2E, join
from glimpse.attention.triton.sizes import padded, stepped
from glimpse.errors import ArgumentError

MASKS = 64
"""The most mask tokens of a row: as many own tokens have a bit."""


@triton.jit(do_not_specialize=["groups"])
def _plan_kernel(
    fed: tl.tensor,
    counts: tl.tensor,
    length: tl.tensor,
    lengths: tl.tensor,
    seen: tl.tensor,
    positions: tl.tensor,
    groups: tl.tensor,
    SIZE: tl.constexpr,
    PAD: tl.constexpr,
    BITS: tl.constexpr,
) -> None:
    masks = groups * SIZE
    row, mask = tl.program_id(0), tl.arange(0, PAD)
    group = mask // SIZE
    stop, count = tl.load(fed + row), tl.load(counts + row)
    # Behind the last group's token nobody reads. `Paged` takes a row's last tokens, as many as it has queries, for its
    # own: those before the row's are text that every group sees.
    own = tl.minimum(count, groups)
    tl.store(lengths + row, tl.where(stop > 0, stop - count + own, 0))
    bits = (masks - own + group + 1).to(tl.int64)
    some = (tl.full((PAD,), 1, tl.int64) << tl.minimum(bits, BITS - 1)) - 1
    tl.store(seen + row * masks + mask, tl.where(bits >= BITS, -1, some), mask=mask < masks)
    # A group goes on counting from the token that it stands behind.
    last = tl.maximum(tl.load(length + row) - 1, 0)
    tl.store(positions + row * masks + mask, (last + 1 + group + mask % SIZE).to(tl.int64), mask=mask < masks)


@triton.jit(do_not_specialize=["queries", "tiles", "side"])
def _group_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    part_out: tl.tensor,
    part_lse: tl.tensor,
    first: tl.tensor,
    out: tl.tensor,
    head_stride: tl.tensor,
    scale: tl.tensor,
    queries: tl.tensor,
    tiles: tl.tensor,
    side: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    SIZE: tl.constexpr,
    SIZE_PAD: tl.constexpr,
) -> None:
    """One mask and query head: the pieces of the text that `Paged` left, joined with the mask's own group."""
    token, q_head = tl.program_id(0), tl.program_id(1)
    row, query = token // queries, token % queries
    head, in_group = q_head // GROUP, q_head % GROUP
    begin = tl.load(first + row)
    pieces = tl.load(first + row + 1) - begin
    piece, each = KV_HEADS * tiles * side, side // GROUP
    place = begin.to(tl.int64) * piece + (head * tiles + query // each) * side + query % each * GROUP + in_group
    lse, mixed = join(part_out, part_lse, place, piece, pieces, 1, 1, DIM, DIM_PAD, CHUNK)
    d, mask = tl.arange(0, DIM_PAD), tl.arange(0, SIZE_PAD)
    at = (token * (KV_HEADS * GROUP) + q_head) * DIM + d
    own = tl.load(q + at, mask=d < DIM, other=0.0).to(tl.float32)
    mates = head.to(tl.int64) * head_stride + (row * queries + query // SIZE * SIZE + mask)[:, None] * DIM + d[None, :]
    wanted = (mask < SIZE)[:, None] & (d < DIM)[None, :]
    k = tl.load(keys + mates, mask=wanted, other=0.0).to(tl.float32)
    v = tl.load(values + mates, mask=wanted, other=0.0).to(tl.float32)
    scores = tl.where(mask < SIZE, tl.sum(k * own[None, :], 1) * scale, float("-inf"))
    peak = tl.maximum(tl.max(scores, 0), lse)
    weights, fade = tl.exp2(scores - tl.max(peak, 0)), tl.exp2(lse - peak)
    total = tl.sum(weights, 0) + fade
    sums = (tl.sum(weights[:, None] * v, 0)[None, :] + mixed * fade[:, None]) / total[:, None]
    tl.store(out + at[None, :], sums.to(out.dtype.element_ty), mask=(d < DIM)[None, :])


class Grouped:
    """Attention of `rows` rows of `groups` groups of `size` masks each, laid out so.

    `plan` once a forward, then call it for every layer. Made once per graph: its buffers must outlive the graph.
    """

    def __init__(
        self, shape: HeadShape, rows: int, groups: int, size: int, page_size: int, device: torch.device | str
    ) -> None:
        """Raises ArgumentError for more masks than a row has bits."""
        if not 1 <= groups * size <= MASKS:
            raise ArgumentError(f"{groups} groups of {size} mask tokens; a row takes 1 to {MASKS} masks")
        self._paged = Paged(shape, rows, groups * size, page_size, device)
        self._groups, self._size = groups, size
        self._lengths = torch.zeros(rows, dtype=torch.int32, device=device)
        self._seen = torch.zeros(rows, groups * size, dtype=torch.int64, device=device)
        self.count = rows * groups * size
        """Mask tokens in all."""
        self.positions = torch.zeros(self.count, dtype=torch.int64, device=device)
        """[count] int64: the masks', as planned."""

    def plan(self, fed: Tensor, counts: Tensor, length: Tensor) -> None:
        """For rows that feed `counts` [rows] int32 tokens from their last committed one on.

        `fed` [rows] int32: their lengths with these tokens counted in, 0: idle; `length` [rows] int32: without drafts.
        """
        _plan_kernel[(len(fed),)](
            fed, counts, length, self._lengths, self._seen, self.positions, self._groups, SIZE=self._size,
            PAD=stepped(self._groups * self._size), BITS=MASKS, num_warps=1,
        )  # fmt: skip
        self._paged.plan(self._lengths)

    def __call__(
        self, q: Tensor, own_keys: Tensor, own_values: Tensor, keys: Tensor, values: Tensor, table: Tensor, out: Tensor
    ) -> Tensor:
        """Attention of one layer for masks `q` [count, heads, head_dim], into `out`, which is like it; contiguous.

        `own_keys`, `own_values` [kv_heads, count, head_dim] are the masks', `keys`, `values`, `table` as for `Paged`.
        """
        paged = self._paged
        paged.pieces(q, keys, values, table, self._lengths, tree=self._seen)
        shape = paged.shape
        _group_kernel[(self.count, shape.heads)](
            q, own_keys, own_values, paged.part_out, paged.part_lse, paged.splits.first, out, own_keys.stride(0),
            float(shape.head_dim**-0.5 * LOG2E.value), *paged.cut, paged.folded, KV_HEADS=shape.kv_heads,
            GROUP=shape.group, DIM=shape.head_dim, DIM_PAD=padded(shape.head_dim, 16), CHUNK=paged.chunk,
            SIZE=self._size, SIZE_PAD=padded(self._size, 2), num_warps=2,
        )  # fmt: skip
        return out

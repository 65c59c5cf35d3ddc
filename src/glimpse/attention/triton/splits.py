"""The split of a batch's positions into equal pieces of work, made on the device once per forward.

Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023) cuts every row into the same number of pieces. Here the pieces are of
the same length instead, so that one long row among short ones takes most of the programs: the piece is the shortest for
which all rows together need at most `items` pieces, found by bisection in the kernel.

Or pieces have one length given beforehand, whatever the rows are: then nothing depends on who shares the batch.

Borders stay where they are while rows grow, so that a token's sums are grouped alike whether it is decoded or verified:
a piece's length has four significant bits, and a row's last piece takes what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.sizes import LANES, padded, stepped

ITEMS = 64, 512
"""Sizes of the block that a row's pieces are written as."""


@triton.jit
def _shortest(units: tl.tensor, items: tl.tensor) -> tl.tensor:
    """The shortest piece, of four significant bits, for which all rows together need at most `items`."""
    low = tl.full((), 1, tl.int32)
    high = tl.maximum(tl.max(units, 0), 1)
    while low < high:
        middle = (low + high) // 2
        fits = tl.sum((units + middle - 1) // middle, 0) <= items
        high = tl.where(fits, middle, high)
        low = tl.where(fits, low, middle + 1)
    grain = tl.full((), 1, tl.int32)
    while grain * 16 <= low:
        grain *= 2
    return (low + grain - 1) // grain * grain


@triton.jit(do_not_specialize=["rows", "items", "unit"])
def _split_kernel(
    lengths: tl.tensor,
    work: tl.tensor,
    first: tl.tensor,
    rows: tl.tensor,
    items: tl.tensor,
    unit: tl.tensor,
    SHARE: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
) -> None:
    me = tl.program_id(0)
    index = tl.arange(0, ROWS)
    length = tl.load(lengths + index, mask=index < rows, other=0)
    units = (length + unit - 1) // unit
    share = tl.full((), SHARE, tl.int32)
    if SHARE == 0:
        share = _shortest(units, items)
    pieces = (units + share - 1) // share
    before = tl.sum(tl.where(index < me, pieces, 0), 0)
    mine = tl.sum(tl.where(index == me, pieces, 0), 0)
    step = share * unit
    end = tl.sum(tl.where(index == me, length, 0), 0)
    tl.store(first + me, before)
    item = tl.arange(0, ITEMS)
    place = work + before + item
    # The program after the last row marks what is left over as idle.
    wanted = tl.where(me < rows, item < mine, before + item < items)
    tl.store(place, tl.where(me < rows, me, -1), mask=wanted)
    tl.store(place + items, item * step, mask=wanted)
    tl.store(place + 2 * items, tl.minimum(item * step + step, end), mask=wanted)


@dataclass(frozen=True, slots=True)
class Splits:
    """Pieces of work for rows of any lengths, in buffers of fixed size."""

    rows: int
    items: int
    """Pieces at most."""
    unit: int
    """Pieces begin at multiples of this many positions."""
    work: Tensor
    """[3, items] int32: row (-1: idle), first position, position after the last."""
    first: Tensor
    """[rows + 1] int32: each row's first piece."""
    share: int = 0
    """Units of every piece; 0: the fewest for which the pieces are `items`."""

    @classmethod
    def empty(cls, rows: int, items: int, unit: int, device: torch.device, share: int = 0) -> Splits:
        """Buffers for `rows` rows; `items` is raised to `rows` where it is less. With a `share` it must be enough."""
        items = max(rows, items)
        work = torch.full((3, items), -1, dtype=torch.int32, device=device)
        return cls(rows, items, unit, work, torch.zeros(rows + 1, dtype=torch.int32, device=device), share)

    def update(self, lengths: Tensor) -> None:
        """Splits rows of `lengths` [rows] int32 anew; 0 gives no piece."""
        _split_kernel[(self.rows + 1,)](
            lengths, self.work, self.first, self.rows, self.items, self.unit,
            SHARE=self.share, ROWS=padded(self.rows, LANES), ITEMS=stepped(self.items, ITEMS), num_warps=1,
        )  # fmt: skip

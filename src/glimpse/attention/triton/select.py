"""Top-k on the device: which slots each draft row will read, per layer and key/value head.

One program per segment (a layer, row and head). Rows that fit into registers go to `resident`. For longer ones, and for
scores in float32, the threshold is found digit by digit over the bits of the scores, which order like integers because
no score is negative (radix select); then one pass writes what is kept, in order of position. Nothing is sorted, and
nothing depends on the order in which threads arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.paged import slots_at
from glimpse.attention.triton.resident import bf16_bits, resident_kernel
from glimpse.attention.triton.sizes import padded
from glimpse.errors import ArgumentError

A_WARP = 2048
"""Positions whose scores the registers of one warp hold, two in each."""
SCORE_BITS = {torch.bfloat16: 15, torch.float32: 31}
"""Bits of a score that is not negative."""
WIDE_DIGIT = 8
"""Bits that one pass decides of a float32."""


@triton.jit
def _bits_at(scores: tl.tensor, position: tl.tensor, scored: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """The scores' bits as int32; positions without a score, and NaN, count as 0."""
    score = tl.load(scores + position, mask=position < scored, other=0.0).to(tl.float32)
    bits = bf16_bits(score)
    if BITS == 31:
        bits = tl.where(score > 0, score, 0.0).to(tl.int32, bitcast=True)
    return bits


@triton.jit
def _merge(
    running: tl.tensor, fresh: tl.tensor, decay: tl.tensor, scored: tl.tensor, length: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """running = decay * running + fresh below `scored`, and 0 from there to `length`."""
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        known = position < scored
        old = tl.load(running + position, mask=known, other=0.0).to(tl.float32)
        new = tl.load(fresh + position, mask=known, other=0.0).to(tl.float32)
        # A decay of 0 forgets whatever the row's last request left there, NaN included.
        total = tl.where(decay > 0, decay * old, 0.0) + new
        tl.store(running + position, total.to(running.dtype.element_ty), mask=position < length)
    tl.debug_barrier()


@triton.jit
def _threshold(
    scores: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    scored: tl.tensor,
    wanted: tl.tensor,
    BLOCK: tl.constexpr,
    DIGIT: tl.constexpr,
    BITS: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(bits of the `wanted`-th largest score among positions first..last - 1, how many equal to it are wanted)."""
    BINS: tl.constexpr = 1 << DIGIT
    PASSES: tl.constexpr = (BITS + DIGIT - 1) // DIGIT
    bins = tl.arange(0, BINS)
    prefix = tl.zeros((), tl.int32)
    for step in tl.static_range(PASSES):
        shift = (PASSES - 1 - step) * DIGIT
        counts = tl.zeros((BINS,), tl.int32)
        for start in range(first, last, BLOCK):
            position = start + tl.arange(0, BLOCK)
            bits = _bits_at(scores, position, scored, BITS)
            inside = position < last
            if step > 0:
                inside = inside & ((bits >> (shift + DIGIT)) == prefix)
            counts += tl.histogram((bits >> shift) & (BINS - 1), BINS, mask=inside)
        at_least = tl.sum(counts, 0) - tl.cumsum(counts, 0) + counts
        digit = tl.max(tl.where(at_least >= wanted, bins, 0), 0)
        wanted -= tl.sum(tl.where(bins > digit, counts, 0), 0)
        prefix = prefix * BINS + digit
    return prefix, wanted


@triton.jit(do_not_specialize=["table_stride", "sinks", "recent"])
def select_kernel(
    fresh: tl.tensor,
    running: tl.tensor,
    decays: tl.tensor,
    scored_to: tl.tensor,
    lengths: tl.tensor,
    budgets: tl.tensor,
    table: tl.tensor,
    selected: tl.tensor,
    counts: tl.tensor,
    score_stride: tl.tensor,
    table_stride: tl.tensor,
    sinks: tl.tensor,
    recent: tl.tensor,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    CAPACITY: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    DIGIT: tl.constexpr,
    RUNNING: tl.constexpr,
    BITS: tl.constexpr,
) -> None:
    """The slots of one segment; see `Selection` for the tensors."""
    segment = tl.program_id(0)
    row = segment // KV_HEADS % ROWS
    length = tl.load(lengths + row)
    if length == 0:
        if (segment < ROWS * KV_HEADS) & (segment % KV_HEADS == 0):
            tl.store(counts + row, 0)
        return
    scored = tl.minimum(tl.load(scored_to + row), length)
    budget = tl.minimum(tl.maximum(tl.load(budgets + row), sinks + recent), CAPACITY)
    scores = fresh + segment.to(tl.int64) * score_stride
    if RUNNING:
        kept = running + segment.to(tl.int64) * score_stride
        _merge(kept, scores, tl.load(decays + row), scored, length, BLOCK)
        scores = kept
    first, last = tl.minimum(sinks, length), tl.maximum(length - recent, 0)
    lowest, ties = tl.zeros((), tl.int32), length
    room = budget - sinks - recent
    if length > budget:
        lowest, ties = tl.full((), (1 << BITS) - 1, tl.int32), room
        if room > 0:
            lowest, ties = _threshold(scores, first, last, scored, room, BLOCK, DIGIT, BITS)
    out = selected + segment.to(tl.int64) * CAPACITY
    table += row * table_stride
    tied, written = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        bits = _bits_at(scores, position, scored, BITS)
        middle = (position >= first) & (position < last)
        equal = (middle & (bits == lowest)).to(tl.int32)
        rank = tied + tl.cumsum(equal, 0) - equal
        best = middle & ((bits > lowest) | ((equal > 0) & (rank < ties)))
        keep = (position < length) & (best | (position < first) | (position >= last))
        kept_here = keep.to(tl.int32)
        place = written + tl.cumsum(kept_here, 0) - kept_here
        slot = slots_at(table, position, keep, PAGE)
        tl.store(out + place, slot.to(tl.int32), mask=keep & (place < CAPACITY))
        tied += tl.sum(equal, 0)
        written += tl.sum(kept_here, 0)
    if (segment < ROWS * KV_HEADS) & (segment % KV_HEADS == 0):
        tl.store(counts + row, tl.minimum(length, budget))


@dataclass(frozen=True, slots=True)
class Selection:
    """What every draft row always reads, and how a launch is cut up."""

    page_size: int
    sinks: int = 4
    """The first positions, always selected."""
    recent: int = 32
    """The last positions, always selected."""
    resident: int = 16384
    """Widths up to this are held in registers."""
    block: int = 4096
    """Positions a program handles at a time, at most, of wider ones."""
    digit: int = 6
    """Bits of the score that one pass decides there."""
    warps: int = 4

    def __call__(
        self,
        scores: Tensor,
        scored: Tensor,
        lengths: Tensor,
        budgets: Tensor,
        table: Tensor,
        selected: Tensor,
        counts: Tensor,
        *,
        running: Tensor | None = None,
        decays: Tensor | None = None,
    ) -> None:
        """Writes `selected` [layers, rows, kv_heads, capacity] int32 slots in order of position, and `counts` [rows].

        Of row r's `lengths` [rows] positions, `scored` [rows] have a score in `scores` [layers, rows, kv_heads,
        max_len] bfloat16 or float32 (not negative; the rest counts as 0; max_len even). Selected are the sinks, the
        recent ones, and the best of the rest (equal ones: the lowest position), `budgets` [rows] in all, or every
        position of a row with fewer. Of a row of length 0 only its count is written.
        Integers are int32. With `running`, shaped like `scores`, and `decays` [rows] float32: running becomes
        decay * running + scores, and is what counts; a row's first selection has decay 0. Raises ArgumentError where
        the always selected ones do not fit, or for scores of another kind.
        """
        layers, rows, kv_heads, width = scores.shape
        bits = SCORE_BITS.get(scores.dtype, 0)
        if not bits or width % 2:
            raise ArgumentError(
                f"scores of {width} {scores.dtype} numbers a head; give bfloat16 or float32, an even number"
            )
        if not (scores.is_contiguous() and selected.is_contiguous() and (running is None or running.is_contiguous())):
            raise ArgumentError("scores or places of some rows of a layer; give those of all rows")
        if self.sinks + self.recent > selected.shape[-1]:
            raise ArgumentError(
                f"{selected.shape[-1]} places cannot hold {self.sinks} first and {self.recent} last positions"
            )
        given = (scored, lengths, budgets, table, selected, counts)
        sizes = (table.stride(0), self.sinks, self.recent)
        options = {
            "ROWS": rows, "KV_HEADS": kv_heads, "CAPACITY": selected.shape[-1], "PAGE": self.page_size,
            "RUNNING": running is not None,
        }  # fmt: skip
        whole, grid = padded(width, 64), (layers * rows * kv_heads,)
        if whole <= self.resident and scores.dtype is torch.bfloat16:
            warps, words = max(self.warps, whole // A_WARP), scores.view(torch.int32)
            kept = None if running is None else running.view(torch.int32)
            resident_kernel[grid](
                words, kept, decays, *given, width // 2, *sizes, WORDS=whole // 2, num_warps=warps, **options
            )
        else:
            digit = self.digit if scores.dtype is torch.bfloat16 else WIDE_DIGIT
            select_kernel[grid](
                scores, running, decays, *given, width, *sizes, BLOCK=min(self.block, whole), DIGIT=digit, BITS=bits,
                num_warps=8, **options,
            )  # fmt: skip


def capacity(rows: int, kv_heads: int, layers: int, budget: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Empty (selected, counts) for `budget` positions a row and head."""
    selected = torch.zeros(layers, rows, kv_heads, budget, dtype=torch.int32, device=device)
    return selected, torch.zeros(rows, dtype=torch.int32, device=device)

"""Top-k selection for rows whose scores fit into the registers of one program: each score is read once.

The threshold is bisected over the scores' bits, which order like integers because no score is negative. A step counts
in registers, and the search ends as soon as a step separates the wanted number, which is long before all 31 bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.paged import slots_at


@triton.jit
def _bits(score: tl.tensor) -> tl.tensor:
    """Bits of the scores as int32; NaN counts as 0."""
    return tl.where(score > 0, score, 0.0).to(tl.int32, bitcast=True)


@triton.jit
def _bisect(bits: tl.tensor, wanted: tl.tensor) -> tl.tensor:
    """A number that at least `wanted` of `bits` reach, and fewer exceed. Bits of -1 never count."""
    low, high = tl.zeros((), tl.int32), tl.max(bits, 0)
    while low < high:
        # Rounded up without overflow, so that `low` always moves.
        middle = low + (high - low + 1) // 2
        count = tl.sum((bits >= middle).to(tl.int32), 0)
        low = tl.where(count >= wanted, middle, low)
        high = tl.where(count >= wanted, tl.where(count == wanted, middle, high), middle - 1)
    return low


@triton.jit(do_not_specialize=["table_stride", "sinks", "recent"])
def resident_kernel(
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
    RUNNING: tl.constexpr,
) -> None:
    """The slots of one segment (a layer, row and head); see `Selection` for the tensors."""
    segment = tl.program_id(0)
    row = segment // KV_HEADS % ROWS
    length = tl.load(lengths + row)
    scored = tl.minimum(tl.load(scored_to + row), length)
    budget = tl.minimum(tl.maximum(tl.load(budgets + row), sinks + recent), CAPACITY)
    position = tl.arange(0, BLOCK)
    at = segment.to(tl.int64) * score_stride + position
    score = tl.load(fresh + at, mask=position < scored, other=0.0)
    if RUNNING:
        decay = tl.load(decays + row)
        # A decay of 0 forgets whatever the row's last request left there, NaN included.
        old = tl.load(running + at, mask=position < scored, other=0.0)
        score += tl.where(decay > 0, decay * old, 0.0)
        tl.store(running + at, score, mask=position < length)
    first, last = tl.minimum(sinks, length), tl.maximum(length - recent, 0)
    middle = (position >= first) & (position < last)
    always = (position < length) & ((position < first) | (position >= last))
    bits = tl.where(middle, _bits(score), -1)
    lowest, ties = tl.zeros((), tl.int32), length
    room = budget - sinks - recent
    if length > budget:
        lowest, ties = tl.full((), 0x7FFFFFFF, tl.int32), room
        if room > 0:
            lowest = _bisect(bits, room)
            ties = room - tl.sum((bits > lowest).to(tl.int32), 0)
    best, equal = always | (bits > lowest), middle & (bits == lowest)
    # One scan counts both: those certainly kept before a position, and, in the upper half, the equal ones.
    both = best.to(tl.int32) + (equal.to(tl.int32) << 16)
    before = tl.cumsum(both, 0) - both
    tied = before >> 16
    place = (before & 0xFFFF) + tl.minimum(tied, ties)
    keep = (best | (equal & (tied < ties))) & (place < CAPACITY)
    slot = slots_at(table + row * table_stride, position, keep, PAGE)
    tl.store(selected + segment.to(tl.int64) * CAPACITY + place, slot.to(tl.int32), mask=keep)
    if (segment < ROWS * KV_HEADS) & (segment % KV_HEADS == 0):
        tl.store(counts + row, tl.minimum(length, budget))

"""Top-k selection for rows whose scores fit into the registers of one program: each score is read once.

Two positions share a 32-bit word from the load to the scan, as bfloat16 numbers that are not negative order like
integers. The threshold is bisected over them: a step subtracts it from both halves of every word at once and counts the
guard bits that stay. The search ends as soon as a step separates the wanted number.
"""

from __future__ import annotations

import triton
import triton.language as tl

INFINITY = tl.constexpr(0x7F80)
"""Bits of bfloat16's largest number; above it, as 16 bits without a sign, are NaN and the negative ones."""
GUARDS = tl.constexpr(-0x7FFF8000)
"""0x80008000 as int32: bit 15 of both halves."""
ONES = tl.constexpr(0x00010001)


@triton.jit
def bf16_bits(x: tl.tensor) -> tl.tensor:
    """int32 bits of float32 numbers rounded to bfloat16, to nearest, ties to even; 0 for NaN and negative ones."""
    bits = tl.where(x > 0, x, 0.0).to(tl.int32, bitcast=True)
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


@triton.jit
def _number(bits: tl.tensor) -> tl.tensor:
    """float32 of bfloat16 bits."""
    return (bits << 16).to(tl.float32, bitcast=True)


@triton.jit
def _code(bits: tl.tensor, eligible: tl.tensor) -> tl.tensor:
    """Bits counted from 1, 0 where not `eligible`; NaN and negative numbers count as 0.0."""
    return tl.where(eligible, tl.where(bits <= INFINITY, bits, 0) + 1, 0)


@triton.jit
def _at_least(words: tl.tensor, bound: tl.tensor) -> tl.tensor:
    """How many codes in `words`, guard bits set, are at least `bound`."""
    kept = ((words - bound * ONES) >> 15) & ONES
    both = tl.sum(kept, 0)
    return (both & 0xFFFF) + ((both >> 16) & 0xFFFF)


@triton.jit
def _bisect(words: tl.tensor, wanted: tl.tensor) -> tl.tensor:
    """A number, at least 1, that at least `wanted` codes reach (or 1), and fewer exceed."""
    low, high = tl.full((), 1, tl.int32), tl.full((), 1, tl.int32) + INFINITY
    while low < high:
        middle = (low + high + 1) // 2
        count = _at_least(words, middle)
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
    WORDS: tl.constexpr,
    RUNNING: tl.constexpr,
) -> None:
    """The slots of one segment (a layer, row and head); scores as words of two. See `Selection` for the tensors."""
    segment = tl.program_id(0)
    row = segment // KV_HEADS % ROWS
    length = tl.load(lengths + row)
    if length == 0:
        # An engine's rows are mostly idle where few requests run: 64 of them took as long as one's whole forward.
        if (segment < ROWS * KV_HEADS) & (segment % KV_HEADS == 0):
            tl.store(counts + row, 0)
        return
    scored = tl.minimum(tl.load(scored_to + row), length)
    budget = tl.minimum(tl.maximum(tl.load(budgets + row), sinks + recent), CAPACITY)
    word = tl.arange(0, WORDS)
    left, right = 2 * word, 2 * word + 1
    at = segment.to(tl.int64) * score_stride + word
    raw = tl.load(fresh + at, mask=left < scored, other=0)
    if RUNNING:
        decay = tl.load(decays + row)
        # A decay of 0 forgets whatever the row's last request left there, NaN included.
        old = tl.where(decay > 0, tl.load(running + at, mask=left < scored, other=0), 0)
        a = bf16_bits(_number(raw & 0xFFFF) + decay * _number(old & 0xFFFF))
        b = bf16_bits(_number(raw >> 16) + decay * _number(old >> 16))
        raw = a | (tl.where(right < scored, b, 0) << 16)
        tl.store(running + at, raw, mask=left < length)
    first, last = tl.minimum(sinks, length), tl.maximum(length - recent, 0)
    a = _code(raw & 0xFFFF, (left >= first) & (left < last))
    b = _code(tl.where(right < scored, (raw >> 16) & 0xFFFF, 0), (right >= first) & (right < last))
    words = a | (b << 16) | GUARDS
    lowest, ties = tl.full((), 1, tl.int32), length
    room = budget - sinks - recent
    if length > budget:
        lowest, ties = tl.full((), 0x7FFF, tl.int32), room
        if room > 0:
            lowest = _bisect(words, room)
            ties = room - _at_least(words, lowest + 1)
    # Taken from the words again: kept through the search, they would fill the registers.
    a, b = words & 0x7FFF, (words >> 16) & 0x7FFF
    best_a = (left < length) & ((left < first) | (left >= last) | (a > lowest))
    best_b = (right < length) & ((right < first) | (right >= last) | (b > lowest))
    equal_a, equal_b = a == lowest, b == lowest
    # One scan counts both: those certainly kept before a position, and, in the upper half, the equal ones.
    counted_a = best_a.to(tl.int32) + (equal_a.to(tl.int32) << 16)
    counted_b = best_b.to(tl.int32) + (equal_b.to(tl.int32) << 16)
    both = counted_a + counted_b
    before = tl.cumsum(both, 0) - both
    between = before + counted_a
    keep_a = best_a | (equal_a & ((before >> 16) < ties))
    keep_b = best_b | (equal_b & ((between >> 16) < ties))
    place_a = (before & 0xFFFF) + tl.minimum(before >> 16, ties)
    place_b = (between & 0xFFFF) + tl.minimum(between >> 16, ties)
    table += row * table_stride
    page_a = tl.load(table + left // PAGE, mask=keep_a | keep_b, other=0)
    page_b = page_a
    if PAGE % 2:
        page_b = tl.load(table + right // PAGE, mask=keep_b, other=0)
    selected += segment.to(tl.int64) * CAPACITY
    tl.store(selected + place_a, page_a * PAGE + left % PAGE, mask=keep_a & (place_a < CAPACITY))
    tl.store(selected + place_b, page_b * PAGE + right % PAGE, mask=keep_b & (place_b < CAPACITY))
    if (segment < ROWS * KV_HEADS) & (segment % KV_HEADS == 0):
        tl.store(counts + row, tl.minimum(length, budget))

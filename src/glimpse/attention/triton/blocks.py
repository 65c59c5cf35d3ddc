"""The next block of each row, once its text has been committed: which masks make it, and what becomes of their tokens.

A small launch each, for what would be dozens of them: at batch 1 a small model's step is bound by launches.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.picking import Sample
from glimpse.attention.triton.sizes import padded
from glimpse.attention.triton.vocabulary import SUMMARY


@triton.jit(do_not_specialize=["groups", "tokens_stride"])
def _behind_kernel(
    hidden: tl.tensor,
    counts: tl.tensor,
    length: tl.tensor,
    tokens: tl.tensor,
    masks: tl.tensor,
    bonus: tl.tensor,
    positions: tl.tensor,
    groups: tl.tensor,
    tokens_stride: tl.tensor,
    SIZE: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row, place = tl.program_id(0), tl.program_id(1)
    kept = tl.minimum(tl.maximum(tl.load(counts + row) - 1, 0), groups - 1)
    after = tl.load(length + row)
    column = tl.arange(0, BLOCK)
    source = ((row * groups + kept) * SIZE + place).to(tl.int64) * HIDDEN
    target = (row * SIZE + place).to(tl.int64) * HIDDEN
    value = tl.load(hidden + source + column, mask=column < HIDDEN, other=0.0)
    tl.store(masks + target + column, value, mask=column < HIDDEN)
    tl.store(positions + row * SIZE + place, (after + place).to(tl.int64))
    if place == 0:
        tl.store(bonus + row, tl.load(tokens + row.to(tl.int64) * tokens_stride + tl.maximum(after - 1, 0)))


@dataclass(frozen=True, slots=True)
class Behind:
    """The group behind the last committed token that was verified, of B rows."""

    masks: Tensor
    """[B, size, hidden]: hidden states; of a row without such a group, whatever stands there."""
    bonus: Tensor
    """[B] int64: the last committed token, the target's own."""
    positions: Tensor
    """[B * size] int64: where the block's tokens would stand."""


def behind(hidden: Tensor, counts: Tensor, length: Tensor, tokens: Tensor, groups: int, size: int) -> Behind:
    """Of masks `hidden` [B * groups * size, hidden], after a commit of `counts` [B] int32 tokens (0: of an idle row).

    `length` [B] int32 and `tokens` [B, width] int64: the rows as they are now.
    """
    rows, width = len(counts), hidden.shape[1]
    masks = hidden.new_empty(rows, size, width)
    bonus, positions = tokens.new_empty(rows), tokens.new_empty(rows * size)
    _behind_kernel[(rows, size)](
        hidden, counts, length, tokens, masks, bonus, positions, groups, tokens.stride(0), SIZE=size,
        HIDDEN=width, BLOCK=padded(width), num_warps=4,
    )  # fmt: skip
    return Behind(masks, bonus, positions)


@triton.jit(do_not_specialize=["groups", "logits_stride", "blocks", "tokens_stride", "ahead"])
def _leave_kernel(
    logits: tl.tensor,
    summary: tl.tensor,
    picks: tl.tensor,
    probabilities: tl.tensor,
    top_ks: tl.tensor,
    counts: tl.tensor,
    length: tl.tensor,
    limit: tl.tensor,
    tokens: tl.tensor,
    drafted: tl.tensor,
    out: tl.tensor,
    groups: tl.tensor,
    logits_stride: tl.tensor,
    blocks: tl.tensor,
    tokens_stride: tl.tensor,
    ahead: tl.tensor,
    floor: tl.tensor,
    SIZE: tl.constexpr,
    BLOCKS_PAD: tl.constexpr,
    AHEAD: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    block = tl.arange(0, BLOCKS_PAD)
    sure, committed, after = tl.load(top_ks + row) == 1, tl.load(counts + row), tl.load(length + row)
    made = (committed > 0) & (committed <= groups)
    text = tokens + row.to(tl.int64) * tokens_stride + after
    reach, count = tl.full((), 1.0, tl.float32), tl.zeros((), tl.int32)
    for place in range(SIZE):
        index = (row * SIZE + place).to(tl.int64)
        token = tl.load(picks + index)
        at = summary + (index * blocks + block) * SUMMARY
        peak = tl.load(at, mask=block < blocks, other=float("-inf"))
        weight = tl.load(at + 1, mask=block < blocks, other=0.0)
        top = tl.max(peak, 0)
        total = top + tl.log(tl.sum(weight * tl.exp(peak - top), 0))
        said = tl.exp(tl.load(logits + index * logits_stride + token).to(tl.float32) - total)
        chance = tl.where(sure, said, tl.load(probabilities + index))
        chance = tl.where(chance == chance, chance, 0.0)
        if AHEAD:
            # What falls below the floor stays there.
            reach *= chance
            count += (reach >= floor).to(tl.int32)
            tl.store(text + place, token, mask=made & (after + place < tokens_stride))
        tl.store(out + row * 2 * SIZE + place, token.to(tl.int32))
        tl.store(out + row * 2 * SIZE + SIZE + place, chance.to(tl.int32, bitcast=True))
    if AHEAD:
        # The target adds a token of its own.
        count = tl.minimum(tl.minimum(count, tl.load(limit + row) - after - 1), ahead)
        tl.store(drafted + row, tl.where(made, tl.maximum(count, 0), 0))


@dataclass(frozen=True, slots=True)
class Standing:
    """B rows after a commit."""

    counts: Tensor
    """[B] int32: tokens just committed; 0 for an idle row."""
    length: Tensor
    """[B] int32."""
    limit: Tensor
    """[B] int32."""
    tokens: Tensor
    """[B, width] int64."""
    drafted: Tensor
    """[B] int32."""
    top_k: Tensor
    """[B] int64; 1: the row's law is sure of its token, whatever the head thinks."""


def leave(
    sample: Sample, logits: Tensor, rows: Standing, groups: int, size: int, *, out: Tensor, ahead: int, floor: float
) -> None:
    """What `sample` has just picked from `logits` [B * size, vocab or more] as the rows' next blocks.

    Writes to `out` [B, 2 * size] int32 the tokens, then, as bits, the probability of each under its law; under the
    head's own where the law is sure. With `ahead` they also go behind the texts of rows whose last committed token had
    one of the `groups`, and into `drafted` at most `ahead` of them, up to where the product of the probabilities falls
    below `floor`.
    """
    _leave_kernel[(len(rows.counts),)](
        logits, sample.summary, sample.picks.tokens, sample.picks.probabilities, rows.top_k, rows.counts, rows.length,
        rows.limit, rows.tokens, rows.drafted, out, groups, logits.stride(0), sample.blocks, rows.tokens.stride(0),
        ahead, floor, SIZE=size, BLOCKS_PAD=padded(sample.blocks, 2), AHEAD=ahead > 0, num_warps=1,
    )  # fmt: skip

"""The likeliest tokens of each row of logits, of what picking has left behind: one small launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.picking import Sample
from glimpse.attention.triton.sizes import padded
from glimpse.attention.triton.vocabulary import SUMMARY

LIKELY = 8
"""Tokens that are kept ("copy-logit"; RACER, arXiv 2604.14885, section 3)."""
_NOTHING = tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["blocks", "groups"])
def _likely_kernel(
    logits: tl.tensor,
    summary: tl.tensor,
    peaks: tl.tensor,
    out: tl.tensor,
    stride: tl.tensor,
    vocab: tl.tensor,
    blocks: tl.tensor,
    groups: tl.tensor,
    COUNT: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCKS_PAD: tl.constexpr,
    GROUPS_PAD: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    block, group, rank = tl.arange(0, BLOCKS_PAD), tl.arange(0, GROUPS_PAD), tl.arange(0, COUNT)
    at_block = summary + (row * blocks + block) * SUMMARY
    peak = tl.load(at_block, mask=block < blocks, other=_NOTHING)
    weight = tl.load(at_block + 1, mask=block < blocks, other=0.0)
    top = tl.max(peak, 0)
    total = top + tl.log(tl.sum(weight * tl.exp(peak - top), 0))
    # The largest logits lie in the groups with the largest peaks.
    high = tl.load(peaks + row * groups + group, mask=group < groups, other=_NOTHING)
    high = tl.where(high == high, high, _NOTHING)
    chosen = tl.zeros((COUNT,), tl.int32)
    for place in range(COUNT):
        best = tl.min(tl.where(high == tl.max(high, 0), group, GROUPS_PAD - 1), 0)
        chosen = tl.where(rank == place, best, chosen)
        high = tl.where(group == best, _NOTHING, high)
    ids = chosen[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(logits + row * stride + ids, mask=ids < vocab, other=_NOTHING).to(tl.float32)
    x = tl.where(x == x, x, _NOTHING)
    out += row * 2 * COUNT
    for place in range(COUNT):
        most = tl.max(tl.max(x, 1), 0)
        best = tl.min(tl.min(tl.where(x == most, ids, GROUPS_PAD * GROUP), 1), 0)
        chance = tl.exp(most - total)
        sound = (most > _NOTHING) & (chance == chance)
        tl.store(out + place, tl.where(most > _NOTHING, best, 0))
        tl.store(out + COUNT + place, tl.where(sound, chance, 0.0).to(tl.int32, bitcast=True))
        x = tl.where(ids == best, _NOTHING, x)


def likeliest(sample: Sample, logits: Tensor, out: Tensor) -> None:
    """Writes to `out` [N, 16] int32 the 8 likeliest ids of `logits` [N, vocab or more], then, as bits, their chances.

    Likeliest first; of raw logits that `sample` has just picked from. Probability 0 where there are fewer ids, or the
    logits are not finite. It reads 8 groups of logits, not all: the largest of each group is known.
    """
    groups = sample.peaks.shape[1]
    _likely_kernel[(len(logits),)](
        logits, sample.summary, sample.peaks, out, logits.stride(0), sample.vocab, sample.blocks, groups, COUNT=LIKELY,
        GROUP=sample.config.group, BLOCKS_PAD=padded(sample.blocks, 2), GROUPS_PAD=padded(groups, 2), num_warps=4,
    )  # fmt: skip


def chances_of(found: Tensor) -> tuple[Tensor, Tensor]:
    """Ids [n, 8] int64 and probabilities [n, 8] float32 of what `likeliest` wrote, [n, 16] int32."""
    return found[:, :LIKELY].long(), found[:, LIKELY:].contiguous().view(torch.float32)

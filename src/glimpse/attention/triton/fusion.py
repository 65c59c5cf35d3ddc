"""The Selector of Slow-Fast Inference on the device: from attention weights to scores whose greatest are chosen.

The equations are those of `glimpse.cache.selector`, for one query (whose power mean it is itself) and without the keys'
norms. Two launches: the sums that the prior's share follows from, one program for each layer, row and key/value head;
then the scores, block by block over all heads of a layer, as they compete. Rows of length 0 cost a return.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.sizes import padded
from glimpse.errors import ArgumentError

TINY = tl.constexpr(1e-9)
SUMS = 1024
"""Positions that are summed up at a time."""
BLOCK = 256
"""Positions of a program that scores."""


@triton.jit
def _prior(place: tl.tensor, count: tl.tensor, age: tl.tensor, age_power: tl.tensor, end: tl.tensor) -> tl.tensor:
    """Not yet normalised: exp(-age u^age_power) (1 - u)^end, u in [0, 1] the place among `count` positions."""
    u = tl.minimum(place.to(tl.float32) / tl.maximum(count - 1, 1).to(tl.float32), 1.0)
    late = tl.exp2(age_power * tl.log2(tl.maximum(u, 1e-30)))
    return tl.exp(-age * late) * tl.exp2(end * tl.log2(1 - u + TINY))


@triton.jit(do_not_specialize=["sinks", "recent", "weights_stride"])
def _sums_kernel(
    weights: tl.tensor,
    lengths: tl.tensor,
    budgets: tl.tensor,
    factors: tl.tensor,
    weights_stride: tl.tensor,
    sinks: tl.tensor,
    recent: tl.tensor,
    age: tl.tensor,
    age_power: tl.tensor,
    end: tl.tensor,
    most_prior: tl.tensor,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    segment = tl.program_id(0)
    row = segment // KV_HEADS % ROWS
    length = tl.load(lengths + row)
    if length <= tl.load(budgets + row):
        return
    count = length - recent - sinks
    weights += segment.to(tl.int64) * weights_stride + sinks
    lanes = tl.arange(0, BLOCK)
    mass, square, cross = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    prior_mass, prior_square = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        place = start + lanes
        own = tl.load(weights + place, mask=place < count, other=0.0).to(tl.float32)
        prior = tl.where(place < count, _prior(place, count, age, age_power, end), 0.0)
        mass += own
        square += own * own
        cross += own * prior
        prior_mass += prior
        prior_square += prior * prior
    fused, prior = 1 / tl.maximum(tl.sum(mass, 0), TINY), 1 / tl.maximum(tl.sum(prior_mass, 0), TINY)
    own, both = tl.sum(square, 0) * fused * fused, tl.sum(cross, 0) * fused * prior
    apart = own - 2 * both + tl.sum(prior_square, 0) * prior * prior
    share = tl.minimum(tl.maximum((own - both) / tl.maximum(apart, TINY * TINY), 0.0), most_prior)
    tl.store(factors + 2 * segment, (1 - share) * fused)
    tl.store(factors + 2 * segment + 1, share * prior)


@triton.jit
def _mixed(
    weights: tl.tensor,
    place: tl.tensor,
    there: tl.tensor,
    count: tl.tensor,
    own_share: tl.tensor,
    prior_share: tl.tensor,
    age: tl.tensor,
    age_power: tl.tensor,
    end: tl.tensor,
) -> tl.tensor:
    """log s [heads, BLOCK] at `place` [BLOCK]; -inf where there is no such place."""
    inside = there & ((place >= 0) & (place < count))[None, :]
    own = tl.load(weights + place[None, :], mask=inside, other=0.0).to(tl.float32)
    prior = _prior(tl.maximum(tl.minimum(place, count - 1), 0), count, age, age_power, end)
    mixed = own_share[:, None] * own + prior_share[:, None] * prior[None, :]
    return tl.where(inside, tl.log(mixed + TINY), float("-inf"))


@triton.jit(do_not_specialize=["sinks", "recent", "weights_stride", "scores_stride"])
def _scores_kernel(
    weights: tl.tensor,
    lengths: tl.tensor,
    budgets: tl.tensor,
    factors: tl.tensor,
    scores: tl.tensor,
    weights_stride: tl.tensor,
    scores_stride: tl.tensor,
    sinks: tl.tensor,
    recent: tl.tensor,
    age: tl.tensor,
    age_power: tl.tensor,
    end: tl.tensor,
    suppression: tl.tensor,
    exclusivity: tl.tensor,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    REACH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    group = tl.program_id(0)
    row, start = group % ROWS, tl.program_id(1) * BLOCK
    length = tl.load(lengths + row)
    count = length - recent - sinks
    if (length <= tl.load(budgets + row)) | (start >= count):
        return
    head = tl.arange(0, HEADS)
    there = (head < KV_HEADS)[:, None]
    segment = group * KV_HEADS + head
    own_share = tl.load(factors + 2 * segment, mask=head < KV_HEADS, other=0.0)
    prior_share = tl.load(factors + 2 * segment + 1, mask=head < KV_HEADS, other=0.0)
    place = start + tl.arange(0, BLOCK)
    weights += segment.to(tl.int64)[:, None] * weights_stride + sinks
    z = _mixed(weights, place, there, count, own_share, prior_share, age, age_power, end)
    higher = tl.full((HEADS, BLOCK), float("-inf"), tl.float32)
    for step in tl.static_range(1, REACH + 1):
        before = _mixed(weights, place - step, there, count, own_share, prior_share, age, age_power, end)
        after = _mixed(weights, place + step, there, count, own_share, prior_share, age, age_power, end)
        higher = tl.maximum(higher, tl.maximum(before, after))
    inside = there & (place < count)[None, :]
    z = tl.where(inside, z - suppression * tl.maximum(tl.where(inside, higher - z, 0.0), 0.0), float("-inf"))
    top = tl.max(tl.where(inside, z, -1e30), 0)
    total = top + tl.log(tl.maximum(tl.sum(tl.exp(z - top[None, :]), 0), TINY))
    z = tl.where(inside, z + exclusivity * (z - total[None, :]), 0.0)
    at = scores + segment.to(tl.int64)[:, None] * scores_stride + sinks + place[None, :]
    tl.store(at, tl.exp(z), mask=inside)


@dataclass(frozen=True, slots=True)
class Fusion:
    """The constants of a `glimpse.cache.selector.Selector`, by its names, and of the budget."""

    sinks: int
    recent: int
    most_prior: float
    suppression: float
    exclusivity: float
    age: float
    age_power: float
    end: float
    reach: int

    def __call__(self, weights: Tensor, lengths: Tensor, budgets: Tensor, scores: Tensor) -> None:
        """Writes exp(z) of the positions between sinks and recent ones to `scores`, like `weights` [layers, rows,
        kv_heads, width] float32, both contiguous.

        `lengths`, `budgets` [rows] int32: rows that are no longer than their budget, which holds the sinks and recent
        ones at least, are left alone. Raises ArgumentError for tensors that are not contiguous.
        """
        if not (weights.is_contiguous() and scores.is_contiguous()):
            raise ArgumentError("weights or scores of some rows of a layer; give those of all rows")
        layers, rows, kv_heads, width = weights.shape
        factors = torch.empty(layers * rows * kv_heads, 2, dtype=torch.float32, device=weights.device)
        prior, sizes = (self.age, self.age_power, self.end), (self.sinks, self.recent)
        _sums_kernel[(layers * rows * kv_heads,)](
            weights, lengths, budgets, factors, weights.stride(2), *sizes, *prior, self.most_prior,
            ROWS=rows, KV_HEADS=kv_heads, BLOCK=min(SUMS, padded(width, 16)), num_warps=4,
        )  # fmt: skip
        block = min(BLOCK, padded(width, 16))
        _scores_kernel[(layers * rows, -(-width // block))](
            weights, lengths, budgets, factors, scores, weights.stride(2), scores.stride(2), *sizes, *prior,
            self.suppression, self.exclusivity, ROWS=rows, KV_HEADS=kv_heads, HEADS=padded(kv_heads),
            REACH=self.reach, BLOCK=block, num_warps=4,
        )  # fmt: skip

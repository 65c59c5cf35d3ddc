"""The rare way to a token: laws cut where the ranked candidates at hand do not reach, over the whole vocabulary.

Which tokens a law keeps is a value and, of the tokens that have exactly this value, how many (the lowest ids). Both are
found by bisection over the values' bits, with a pass over the vocabulary for each bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.noise import log_exponential
from glimpse.attention.triton.vocabulary import sortable, unsorted


@triton.jit
def weight_of(key: tl.tensor, peak: tl.tensor, temperature: tl.tensor, log_min_p: tl.tensor) -> tl.tensor:
    """float64 e^((x - peak) / T) of sortable keys, 0 where min_p cuts."""
    exponent = (unsorted(key).to(tl.float64) - peak) / temperature
    return tl.where(exponent >= log_min_p, tl.exp(exponent), 0.0)


@triton.jit
def _keys_at(row: tl.tensor, ids: tl.tensor, vocab: tl.tensor) -> tl.tensor:
    return sortable(tl.load(row + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32))


@triton.jit
def _reach(
    row: tl.tensor,
    bound: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    vocab: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(how many tokens have a key above `bound`, what they weigh)."""
    count, mass = tl.zeros((), tl.int32), tl.zeros((), tl.float64)
    for start in range(0, vocab, TILE):
        ids = start + tl.arange(0, TILE)
        key = _keys_at(row, ids, vocab)
        above = (key > bound) & (ids < vocab)
        count += tl.sum(above.to(tl.int32), 0)
        mass += tl.sum(tl.where(above, weight_of(key, peak, temperature, log_min_p), 0.0), 0)
    return count, mass


@triton.jit
def _bisect(
    row: tl.tensor,
    most: tl.tensor,
    limit: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    vocab: tl.tensor,
    TILE: tl.constexpr,
) -> tl.tensor:
    """The least key with fewer than `most` tokens above it, weighing less than `limit`."""
    low, high = tl.full((), -(1 << 31), tl.int64), sortable(peak.to(tl.float32)).to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        count, mass = _reach(row, middle.to(tl.int32), peak, temperature, log_min_p, vocab, TILE)
        fits = (count < most) & (mass < limit)
        high = tl.where(fits, middle, high)
        low = tl.where(fits, low, middle + 1)
    return low.to(tl.int32)


@triton.jit
def allowed(
    row: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    vocab: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(the least key that is kept, how many tokens of this very key are)."""
    lowest = _bisect(row, top_k, float("inf"), peak, temperature, log_min_p, vocab, TILE)
    above, mass = _reach(row, lowest, peak, temperature, log_min_p, vocab, TILE)
    ties = top_k - above
    if top_p < 1.0:
        equal = _reach(row, lowest - 1, peak, temperature, log_min_p, vocab, TILE)[0] - above
        each = weight_of(lowest, peak, temperature, log_min_p)
        limit = top_p * (mass + tl.minimum(equal, ties) * each)
        lowest = tl.maximum(lowest, _bisect(row, top_k, limit, peak, temperature, log_min_p, vocab, TILE))
        above, mass = _reach(row, lowest, peak, temperature, log_min_p, vocab, TILE)
        each = tl.maximum(weight_of(lowest, peak, temperature, log_min_p), 1e-300)
        needed = tl.minimum(tl.maximum(tl.ceil((limit - mass) / each), 1.0), 1e9).to(tl.int64)
        ties = tl.minimum(top_k - above, needed)
    return lowest, ties


@triton.jit
def pick_wide(
    row: tl.tensor,
    key: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    vocab: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(token, its probability) of the law of the logits at `row`; `peak` float64 is the largest of them."""
    lowest, ties = allowed(row, top_k, top_p, peak, temperature, log_min_p, vocab, TILE)
    best, token, tied = tl.full((), float("-inf"), tl.float32), tl.zeros((), tl.int32), tl.zeros((), tl.int64)
    mass, weight = tl.zeros((), tl.float64), tl.zeros((), tl.float64)
    for start in range(0, vocab, TILE):
        ids = start + tl.arange(0, TILE)
        x = _keys_at(row, ids, vocab)
        equal = ((x == lowest) & (ids < vocab)).to(tl.int32)
        rank = tied + tl.cumsum(equal, 0) - equal
        each = weight_of(x, peak, temperature, log_min_p)
        keep = (ids < vocab) & (each > 0) & ((x > lowest) | ((equal > 0) & (rank < ties)))
        exponent = ((unsorted(x).to(tl.float64) - peak) / temperature).to(tl.float32)
        score = tl.where(keep, exponent - log_exponential(key, ids), float("-inf"))
        high = tl.max(score, 0)
        winner = tl.min(tl.where(keep & (score == high), ids, vocab - 1), 0)
        mass += tl.sum(tl.where(keep, each, 0.0), 0)
        weight = tl.where(high > best, tl.sum(tl.where(ids == winner, each, 0.0), 0), weight)
        token = tl.where(high > best, winner, token)
        best = tl.maximum(best, high)
        tied += tl.sum(equal, 0)
    return token, (weight / mass).to(tl.float32)

"""Sampling without the host: from logits and every row's settings to tokens, by the recipe of `glimpse.sampling`.

Two launches. The first (`vocabulary`) passes over the logits once. The second has one program a row. The k-th largest
of the groups' peaks bounds the k-th largest logit from below, so the tokens at or above it are few and hold the k best;
they are gathered, ranked (by value, then by id) and cut exactly as `glimpse.sampling.truncation` does, in float64. Laws
that are cut nowhere are picked from in the first launch; laws that reach past the gathered tokens go to `wide`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.noise import log_exponential, noise_key
from glimpse.attention.triton.vocabulary import SUMMARY, is_whole, owner_of, sortable, unsorted
from glimpse.attention.triton.wide import pick_wide

UNRANKED = tl.constexpr(-(1 << 63))
LOWEST_FIRST = tl.constexpr(0x7FFFFFFF)
"""Without the id's bits, it fills the low half of a ranking key, so that of equal values the lowest id ranks first."""


@triton.jit
def peak_bound(
    peaks: tl.tensor, groups: tl.tensor, rank: tl.tensor, GROUPS_PAD: tl.constexpr, EMPTY: tl.constexpr
) -> tl.tensor:
    """A bound that at least `rank` (from 1) of the groups' peaks reach, and mostly no more; -inf where there are fewer.

    Bisected over the order of the float32 numbers, without their last EMPTY bits, which tell no two logits apart: a few
    counts take less than a sort.
    """
    group = tl.arange(0, GROUPS_PAD)
    key = sortable(tl.load(peaks + group, mask=group < groups, other=float("-inf"))).to(tl.int64) >> EMPTY
    low, high = tl.min(key, 0), tl.max(key, 0)
    while low < high:
        middle = (low + high + 1) >> 1
        count = tl.sum((key >= middle).to(tl.int32), 0)
        low = tl.where(count >= rank, middle, low)
        high = tl.where(count >= rank, tl.where(count == rank, middle, high), middle - 1)
    # The bits that were left out are ones in the keys of negative numbers, zeros in those of the others.
    rest: tl.constexpr = (1 << EMPTY) - 1
    return unsorted(((low << EMPTY) | tl.where(low < 0, rest, 0)).to(tl.int32))


@triton.jit
def high_groups(
    peaks: tl.tensor, groups: tl.tensor, bound: tl.tensor, found: tl.tensor, GROUPS_PAD: tl.constexpr
) -> tl.tensor:
    """Writes the groups whose peak reaches `bound` to `found` [GROUPS_PAD] int32, in order; how many there are."""
    group = tl.arange(0, GROUPS_PAD)
    high = (group < groups) & (tl.load(peaks + group, mask=group < groups, other=float("-inf")) >= bound)
    place = tl.cumsum(high.to(tl.int32), 0) - 1
    tl.store(found + place, group, mask=high)
    tl.debug_barrier()
    return tl.sum(high.to(tl.int32), 0)


@triton.jit
def gather(
    row: tl.tensor,
    bound: tl.tensor,
    high: tl.tensor,
    highs: tl.tensor,
    found: tl.tensor,
    vocab: tl.tensor,
    GROUP: tl.constexpr,
    TILE: tl.constexpr,
    ROOM: tl.constexpr,
) -> tl.tensor:
    """Writes the ranking keys of the tokens at or above `bound` to `found` [ROOM] int64; how many there are.

    Only the `highs` groups listed at `high` can hold one.
    """
    total = tl.zeros((), tl.int32)
    for start in range(0, highs * GROUP, TILE):
        index = start + tl.arange(0, TILE)
        group = tl.load(high + index // GROUP, mask=index < highs * GROUP, other=0)
        ids = group * GROUP + index % GROUP
        inside = (index < highs * GROUP) & (ids < vocab)
        x = tl.load(row + ids, mask=inside, other=float("-inf")).to(tl.float32)
        keep = inside & (x >= bound) & (x > float("-inf"))
        kept = keep.to(tl.int32)
        place = total + tl.cumsum(kept, 0) - kept
        # Higher values first, and of equal ones the lower id.
        key = (sortable(x).to(tl.int64) << 32) | (ids ^ LOWEST_FIRST).to(tl.int64)
        tl.store(found + place, key, mask=keep & (place < ROOM))
        total += tl.sum(kept, 0)
    tl.debug_barrier()
    return total


@triton.jit
def _pick_ranked(
    found: tl.tensor,
    total: tl.tensor,
    key: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    mass: tl.tensor,
    everything: tl.tensor,
    ROOM: tl.constexpr,
    COUNTED: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(token, its probability, whether the law was cut within the `total` gathered tokens).

    COUNTED ranks a few tokens by comparing each with every other; more are sorted.
    """
    rank = tl.arange(0, ROOM)
    there = rank < total
    ranked = tl.load(found + rank, mask=there, other=UNRANKED)
    if COUNTED:
        higher = ranked[None, :] > ranked[:, None]
        rank = tl.sum(higher.to(tl.int32), 1)
    else:
        ranked = tl.sort(ranked, descending=True)
    ids = (ranked & LOWEST_FIRST).to(tl.int32) ^ LOWEST_FIRST
    exponent = (unsorted((ranked >> 32).to(tl.int32)).to(tl.float64) - peak) / temperature
    keep = there & (exponent >= log_min_p) & (rank < top_k)
    cut = everything | (tl.sum(keep.to(tl.int32), 0) < total) | (top_k <= total)
    weight = tl.where(keep, tl.exp(tl.where(there, exponent, 0.0)), 0.0)
    whole = tl.where(cut, tl.sum(weight, 0), mass)
    known = cut | (log_min_p == float("-inf"))
    before = tl.sum(tl.where(higher, weight[None, :], 0.0), 1) if COUNTED else tl.cumsum(weight, 0) - weight
    limit = tl.where(top_p < 1.0, top_p * whole, float("inf"))
    keep = keep & ((before < limit) | (rank == 0))
    cut = cut | (known & (tl.sum(keep.to(tl.int32), 0) < total))
    log_mass = tl.log(tl.sum(tl.where(keep, weight, 0.0), 0))
    logp = tl.where(keep, exponent - log_mass, float("-inf")).to(tl.float32)
    score = tl.where(keep, logp - log_exponential(key, ids), float("-inf"))
    token = tl.min(tl.where(keep & (score == tl.max(score, 0)), ids, 0x7FFFFFFF), 0)
    return token, tl.exp(tl.max(tl.where(keep & (ids == token), logp, float("-inf")), 0)), cut


@triton.jit(do_not_specialize=["blocks", "groups", "reach"])
def pick_kernel(
    logits: tl.tensor,
    temperatures: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    log_min_ps: tl.tensor,
    seeds: tl.tensor,
    positions: tl.tensor,
    salts: tl.tensor,
    owners: tl.tensor,
    summary: tl.tensor,
    peaks: tl.tensor,
    high: tl.tensor,
    gathered: tl.tensor,
    tokens: tl.tensor,
    probabilities: tl.tensor,
    entropies: tl.tensor,
    stride: tl.tensor,
    vocab: tl.tensor,
    blocks: tl.tensor,
    groups: tl.tensor,
    reach: tl.tensor,
    ROLE: tl.constexpr,
    SALTED: tl.constexpr,
    OWNED: tl.constexpr,
    AHEAD: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCKS_PAD: tl.constexpr,
    GROUPS_PAD: tl.constexpr,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
    FEW: tl.constexpr,
    ROOM: tl.constexpr,
) -> None:
    """The token of one row, its probability, and the entropy of the row's logits; see `Sample`."""
    index = tl.program_id(0).to(tl.int64)
    row = logits + index * stride
    own = owner_of(owners, index, OWNED)
    temperature = tl.load(temperatures + own).to(tl.float64)
    top_k, top_p = tl.load(top_ks + own), tl.load(top_ps + own).to(tl.float64)
    log_min_p = tl.load(log_min_ps + own).to(tl.float64)
    block = tl.arange(0, BLOCKS_PAD)
    at = summary + (index * blocks + block) * SUMMARY
    there = block < blocks
    peak_of = tl.load(at, mask=there, other=float("-inf"))
    peak = tl.max(peak_of, 0)
    there = there & (peak_of > float("-inf"))
    offset = tl.where(there, peak_of - peak, 0.0)
    share = tl.where(there, tl.exp(offset), 0.0)
    sums, products = tl.load(at + 1, mask=there, other=0.0), tl.load(at + 2, mask=there, other=0.0)
    total = tl.sum(share * sums, 0)
    tl.store(entropies + index, tl.log(total) - tl.sum(share * (products + offset * sums), 0) / total)
    cold = temperature.to(tl.float32)
    mass = tl.sum(tl.exp(offset / cold) * tl.load(at + 3, mask=there, other=0.0), 0).to(tl.float64)

    salt = tl.zeros((), tl.int64)
    if SALTED:
        salt = tl.load(salts + index)
    key = noise_key(tl.load(seeds + own), tl.load(positions + index) + AHEAD, salt, ROLE)
    wide_peak = peak.to(tl.float64)
    if is_whole(top_k, top_p, log_min_p, vocab):
        scores = tl.load(at + 4, mask=there, other=float("-inf")) + offset / cold
        ids = tl.load(at + 5, mask=there, other=0.0).to(tl.int32, bitcast=True)
        token = tl.min(tl.where(there & (scores == tl.max(scores, 0)), ids, vocab - 1), 0)
        exponent = (tl.load(row + token).to(tl.float64) - wide_peak) / temperature
        probability = (tl.exp(exponent) / mass).to(tl.float32)
    else:
        rank = tl.where(top_k <= groups, top_k, tl.minimum(reach, groups)).to(tl.int32)
        EMPTY: tl.constexpr = 16 if logits.dtype.element_ty == tl.bfloat16 else 0
        bound = peak_bound(peaks + index * groups, groups, rank, GROUPS_PAD, EMPTY)
        found = gathered + index * ROOM
        high += index * GROUPS_PAD
        highs = high_groups(peaks + index * groups, groups, bound, high, GROUPS_PAD)
        count = gather(row, bound, high, highs, found, vocab, GROUP, TILE, ROOM)
        everything = bound == float("-inf")
        token, probability, done = tl.zeros((), tl.int32), tl.zeros((), tl.float32), tl.full((), 0, tl.int1)
        if count <= FEW:
            token, probability, done = _pick_ranked(
                found, count, key, top_k, top_p, wide_peak, temperature, log_min_p, mass, everything, FEW, True
            )
        elif count <= ROOM:
            token, probability, done = _pick_ranked(
                found, count, key, top_k, top_p, wide_peak, temperature, log_min_p, mass, everything, ROOM, False
            )
        if not done:
            token, probability = pick_wide(row, key, top_k, top_p, wide_peak, temperature, log_min_p, vocab, WIDE)
    # Logits that are not finite give an arbitrary token, but a legal one.
    tl.store(tokens + index, tl.minimum(tl.maximum(token, 0), vocab - 1).to(tl.int64))
    tl.store(probabilities + index, probability)

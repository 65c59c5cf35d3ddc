"""Lossy: drafted tokens take the place of the target's picks where a relaxed rule lets them pass.

The rules are those of `acceptance.relaxed.walks` that look at one law: typical acceptance and top-k. On a chain their
walk is that of exact acceptance, over picks that were changed so. One program a token, behind picking: which tokens a
law keeps is found as picking finds it, from the groups' peaks where the law is short, else by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.rows import Fed
from glimpse.attention.triton.sample import LOWEST_FIRST, UNRANKED, gather, high_groups, peak_bound
from glimpse.attention.triton.sizes import padded
from glimpse.attention.triton.vocabulary import SUMMARY, is_whole, sortable, unsorted
from glimpse.attention.triton.wide import allowed, weight_of


class Passing(IntEnum):
    """Which rule it is."""

    TYPICAL = 0
    """More likely than min(d^2, d exp(-H)), for strength d and the law's entropy H in nats."""
    TOP_K = 1
    """Fewer than k tokens are likelier, for strength k."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its strength."""

    passing: Passing
    strength: float


@triton.jit
def _ranked(
    found: tl.tensor,
    total: tl.tensor,
    drafted: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    mass: tl.tensor,
    everything: tl.tensor,
    ROOM: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(the token's probability, how many are likelier, the law's entropy, whether the law was cut within the `total`
    gathered tokens); the cuts are those of `sample`."""
    rank = tl.arange(0, ROOM)
    there = rank < total
    ranked = tl.sort(tl.load(found + rank, mask=there, other=UNRANKED), descending=True)
    ids = (ranked & LOWEST_FIRST).to(tl.int32) ^ LOWEST_FIRST
    value = (ranked >> 32).to(tl.int32)
    exponent = (unsorted(value).to(tl.float64) - peak) / temperature
    keep = there & (exponent >= log_min_p) & (rank < top_k)
    cut = everything | (tl.sum(keep.to(tl.int32), 0) < total) | (top_k <= total)
    weight = tl.where(keep, tl.exp(tl.where(there, exponent, 0.0)), 0.0)
    whole = tl.where(cut, tl.sum(weight, 0), mass)
    known = cut | (log_min_p == float("-inf"))
    limit = tl.where(top_p < 1.0, top_p * whole, float("inf"))
    keep = keep & ((tl.cumsum(weight, 0) - weight < limit) | (rank == 0))
    cut = cut | (known & (tl.sum(keep.to(tl.int32), 0) < total))
    weight = tl.where(keep, weight, 0.0)
    own = keep & (ids == drafted)
    level = tl.max(tl.where(own, value, -(1 << 31)), 0)
    above = tl.sum((keep & (value > level)).to(tl.int32), 0)
    whole = tl.sum(weight, 0)
    entropy = tl.log(whole) - tl.sum(tl.where(keep, weight * exponent, 0.0), 0) / whole
    return tl.sum(tl.where(own, weight, 0.0), 0) / whole, above, entropy, cut


@triton.jit
def _spread(
    row: tl.tensor,
    drafted: tl.tensor,
    lowest: tl.tensor,
    ties: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    log_min_p: tl.tensor,
    vocab: tl.tensor,
    TILE: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """(the token's probability, how many are likelier, the law's entropy) of the law of the tokens whose key is above
    `lowest`, and of the first `ties` that have it."""
    level = sortable(tl.load(row + drafted).to(tl.float32))
    whole, product, own = tl.zeros((), tl.float64), tl.zeros((), tl.float64), tl.zeros((), tl.float64)
    tied, above = tl.zeros((), tl.int64), tl.zeros((), tl.int32)
    for start in range(0, vocab, TILE):
        ids = start + tl.arange(0, TILE)
        key = sortable(tl.load(row + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32))
        equal = ((key == lowest) & (ids < vocab)).to(tl.int32)
        rank = tied + tl.cumsum(equal, 0) - equal
        weight = weight_of(key, peak, temperature, log_min_p)
        keep = (ids < vocab) & (weight > 0) & ((key > lowest) | ((equal > 0) & (rank < ties)))
        weight = tl.where(keep, weight, 0.0)
        exponent = tl.where(keep, (unsorted(key).to(tl.float64) - peak) / temperature, 0.0)
        whole += tl.sum(weight, 0)
        product += tl.sum(weight * exponent, 0)
        own += tl.sum(tl.where(ids == drafted, weight, 0.0), 0)
        above += tl.sum((keep & (key > level)).to(tl.int32), 0)
        tied += tl.sum(equal, 0)
    return own / whole, above, tl.log(whole) - product / whole


@triton.jit(do_not_specialize=["blocks", "groups", "reach", "queries"])
def _relax_kernel(
    logits: tl.tensor,
    temperatures: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    log_min_ps: tl.tensor,
    owners: tl.tensor,
    firsts: tl.tensor,
    counts: tl.tensor,
    ids: tl.tensor,
    summary: tl.tensor,
    peaks: tl.tensor,
    high: tl.tensor,
    gathered: tl.tensor,
    tokens: tl.tensor,
    loose: tl.tensor,
    stride: tl.tensor,
    vocab: tl.tensor,
    blocks: tl.tensor,
    groups: tl.tensor,
    reach: tl.tensor,
    queries: tl.tensor,
    strength: tl.tensor,
    PASSING: tl.constexpr,
    OWNED: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCKS_PAD: tl.constexpr,
    GROUPS_PAD: tl.constexpr,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
    FEW: tl.constexpr,
    ROOM: tl.constexpr,
) -> None:
    index = tl.program_id(0).to(tl.int64)
    tl.store(loose + index, 0)
    owner = index // queries
    node = index % queries
    if OWNED:
        owner = tl.load(owners + index).to(tl.int64)
        node = index - tl.load(firsts + tl.maximum(owner, 0))
    have = tl.load(counts + tl.maximum(owner, 0))
    if (owner >= 0) & (node < have - 1):
        drafted, pick = tl.load(ids + index + 1).to(tl.int32), tl.load(tokens + index).to(tl.int32)
        if (drafted != pick) & (drafted < vocab):
            row = logits + index * stride
            own = index
            if OWNED:
                own = owner
            temperature = tl.load(temperatures + own).to(tl.float64)
            top_k, top_p = tl.load(top_ks + own), tl.load(top_ps + own).to(tl.float64)
            log_min_p = tl.load(log_min_ps + own).to(tl.float64)
            block = tl.arange(0, BLOCKS_PAD)
            at = summary + (index * blocks + block) * SUMMARY
            peak_of = tl.load(at, mask=block < blocks, other=float("-inf"))
            peak = tl.max(peak_of, 0)
            there = peak_of > float("-inf")
            offset = tl.where(there, peak_of - peak, 0.0)
            share = tl.where(there, tl.exp(offset / temperature.to(tl.float32)), 0.0)
            mass = tl.sum(share * tl.load(at + 3, mask=there, other=0.0), 0).to(tl.float64)
            peak = peak.to(tl.float64)
            chance, above, entropy = tl.zeros((), tl.float64), tl.zeros((), tl.int32), tl.zeros((), tl.float64)
            done = tl.full((), 0, tl.int1)
            lowest, ties = tl.full((), -(1 << 31), tl.int32), tl.full((), 0, tl.int64)
            if not is_whole(top_k, top_p, log_min_p, vocab):
                rank = tl.where(top_k <= groups, top_k, tl.minimum(reach, groups)).to(tl.int32)
                EMPTY: tl.constexpr = 16 if logits.dtype.element_ty == tl.bfloat16 else 0
                bound = peak_bound(peaks + index * groups, groups, rank, GROUPS_PAD, EMPTY)
                found, listed = gathered + index * ROOM, high + index * GROUPS_PAD
                highs = high_groups(peaks + index * groups, groups, bound, listed, GROUPS_PAD)
                count = gather(row, bound, listed, highs, found, vocab, GROUP, TILE, ROOM)
                everything = bound == float("-inf")
                if count <= FEW:
                    chance, above, entropy, done = _ranked(
                        found, count, drafted, top_k, top_p, peak, temperature, log_min_p, mass, everything, FEW
                    )
                elif count <= ROOM:
                    chance, above, entropy, done = _ranked(
                        found, count, drafted, top_k, top_p, peak, temperature, log_min_p, mass, everything, ROOM
                    )
                if not done:
                    lowest, ties = allowed(row, top_k, top_p, peak, temperature, log_min_p, vocab, WIDE)
            if not done:
                chance, above, entropy = _spread(row, drafted, lowest, ties, peak, temperature, log_min_p, vocab, WIDE)
            if PASSING == 0:
                least = tl.minimum(strength * strength, strength * tl.exp(-entropy))
                passes = chance > least
            else:
                passes = above < strength
            if passes & (chance > 0):
                tl.store(tokens + index, drafted.to(tl.int64))
                tl.store(loose + index, 1)


def relax(
    sample: Sample, logits: Tensor, settings: RowSettings, fed: Fed, rule: Rule, loose: Tensor, *,
    ragged: Ragged | None = None,
) -> None:  # fmt: skip
    """Puts the token drafted next in the place of each pick of `sample` that differs, where `rule` lets it pass.

    `logits` [N, vocab or more] and `settings` as `sample` has just picked by them; `fed`: the tokens of the step, of
    which each row's next one is its draft, with how many each row has; `loose` [N] int32: 1 where a pick was replaced,
    else 0. `ragged`: the tokens are [N], each row's where that says, and `settings` are the rows'. Drafts have to be
    chains.
    """
    config, count, groups = sample.config, sample.rows, sample.peaks.shape[1]
    rows = len(fed.lengths)
    _relax_kernel[(count,)](
        logits, settings.temperature, settings.top_k, settings.top_p, settings.log_min_p,
        None if ragged is None else ragged.owners, None if ragged is None else ragged.firsts, fed.counts, fed.ids,
        sample.summary, sample.peaks, sample.high, sample.gathered, sample.picks.tokens, loose, logits.stride(0),
        sample.vocab, sample.blocks, groups, config.reach, max(1, count // rows), float(rule.strength),
        PASSING=int(rule.passing), OWNED=ragged is not None, GROUP=config.group, BLOCKS_PAD=padded(sample.blocks, 2),
        GROUPS_PAD=padded(groups, 2), TILE=config.tile, WIDE=min(config.wide, padded(sample.vocab, 32)),
        FEW=min(config.few, config.room), ROOM=config.room, num_warps=config.warps,
    )  # fmt: skip

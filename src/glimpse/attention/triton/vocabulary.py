"""One pass over the logits, in parallel over blocks of the vocabulary: what picking needs to know of each block."""

from __future__ import annotations

import triton
import triton.language as tl

from glimpse.attention.triton.noise import log_exponential, noise_key

SUMMARY = tl.constexpr(6)
"""Float32 numbers of each block: peak, sum e^x, sum x e^x, sum e^(x / T), best score and its token's id (as bits); x is
counted from the block's peak, the score is x / T plus noise."""
TINY = tl.constexpr(-1e30)
"""In place of -inf where that would give NaN."""


@triton.jit
def is_whole(top_k: tl.tensor, top_p: tl.tensor, log_min_p: tl.tensor, vocab: tl.tensor) -> tl.tensor:
    """Whether a row's options leave the law whole."""
    return (top_k >= vocab) & (top_p >= 1.0) & (log_min_p == float("-inf"))


@triton.jit
def owner_of(owners: tl.tensor, index: tl.tensor, OWNED: tl.constexpr) -> tl.tensor:
    """The row whose settings logits `index` is picked by; padding (-1) takes those of row 0."""
    own = index
    if OWNED:
        own = tl.maximum(tl.load(owners + index), 0).to(tl.int64)
    return own


@triton.jit(do_not_specialize=["blocks"])
def summary_kernel(
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
    stride: tl.tensor,
    vocab: tl.tensor,
    blocks: tl.tensor,
    ROLE: tl.constexpr,
    SALTED: tl.constexpr,
    OWNED: tl.constexpr,
    AHEAD: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
) -> None:
    """`summary` [N, blocks, SUMMARY] and `peaks` [N, blocks * GROUPS], the largest of each run of GROUP logits."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    own = owner_of(owners, row, OWNED)
    group = block * GROUPS + tl.arange(0, GROUPS)
    ids = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(logits + row * stride + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32)
    highs = tl.max(x, 1)
    tl.store(peaks + row * blocks * GROUPS + group, highs)
    peak = tl.max(highs, 0)
    x = tl.where(x == float("-inf"), TINY, x - tl.where(peak == float("-inf"), 0.0, peak))
    weight = tl.exp(x)
    temperature = tl.load(temperatures + own).to(tl.float32)
    scaled = x / temperature
    out = summary + (row * blocks + block) * SUMMARY
    tl.store(out, peak)
    tl.store(out + 1, tl.sum(tl.sum(weight, 1), 0))
    tl.store(out + 2, tl.sum(tl.sum(tl.where(weight > 0, weight * x, 0.0), 1), 0))
    tl.store(out + 3, tl.sum(tl.sum(tl.exp(scaled), 1), 0))
    if is_whole(tl.load(top_ks + own), tl.load(top_ps + own), tl.load(log_min_ps + own), vocab):
        salt = tl.zeros((), tl.int64)
        if SALTED:
            salt = tl.load(salts + row)
        key = noise_key(tl.load(seeds + own), tl.load(positions + row) + AHEAD, salt, ROLE)
        score = tl.where(ids < vocab, scaled - log_exponential(key, ids), float("-inf"))
        best = tl.max(tl.max(score, 1), 0)
        winner = tl.min(tl.min(tl.where(score == best, ids, vocab - 1), 1), 0)
        tl.store(out + 4, best)
        tl.store(out + 5, winner.to(tl.float32, bitcast=True))


@triton.jit
def sortable(x: tl.tensor) -> tl.tensor:
    """int32 numbers in the order of the float32 `x`; the two zeros are equal."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def unsorted(key: tl.tensor) -> tl.tensor:
    """The float32 numbers of `sortable` keys."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)

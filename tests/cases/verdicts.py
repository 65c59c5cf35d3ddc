"""The verdicts of the case list: EQ, TIE, DIST, LEDGER."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from scipy import stats

from glimpse.bench.held import held
from glimpse.bench.judge import margin
from glimpse.llm import LLM
from glimpse.outputs import GenerationOutput, first_difference
from glimpse.sampling import SamplingParams

DRAWS = 20_000
LEVEL = 1e-4


def eq(outputs: Sequence[GenerationOutput], reference: Sequence[Sequence[int]]) -> None:
    """EQ: token ids equal REF's."""
    got, right = [list(out.token_ids) for out in outputs], [list(ids) for ids in reference]
    for index, (one, other) in enumerate(zip(got, right, strict=True)):
        assert one == other, f"output {index} differs from plain decoding at {first_difference(one, other)}"


@dataclass(frozen=True)
class Tie:
    """A first divergence that rounding explains."""

    position: int
    gap: float
    """By how much the plain path preferred its own token; below 0 where, asked again, it takes the other."""
    limit: float


def noise_limit(llm: LLM, ids: Sequence[int], width: int) -> float:
    """The gap that rounding can bridge: twice (two logits may move) the largest change of a logit of the plain path
    between forwards of one token and of `width` tokens over the same text; the logits of each position's 8 likeliest
    tokens, for those are what a pick is between. At least one step of the model's dtype at the largest of them."""
    with held(llm, ids) as text:
        first = max(1, text._sequence.shared_len)
        starts = range(first, len(ids) - width + 1, width)
        singles = torch.cat([text.forward(at, 1).logits[0] for at in range(first, starts[-1] + width)])
        together = torch.cat([text.forward(at, width).logits[0] for at in starts])
    likeliest = singles.topk(8)
    step = torch.finfo(llm._engine.parts.decoder.dtype).eps * 2.0 ** math.floor(math.log2(likeliest.values.abs().max()))
    return max(step, 2 * float((singles - together).gather(1, likeliest.indices).abs().max()))


def tie(
    llm: LLM,
    ids: Sequence[int],
    reference: Sequence[int],
    out: GenerationOutput,
    params: SamplingParams,
    *,
    width: int,
) -> Tie | None:
    """TIE: None where the output is REF's; else its first divergence, judged by the plain path `llm` after the common
    prefix. Fails where the gap is real. Nothing is judged behind it."""
    position = first_difference(list(reference), list(out.token_ids))
    if position is None:
        return None
    assert position < min(len(reference), len(out.token_ids)), "one output is a beginning of the other"
    gap = margin(llm, ids, reference, position, out.token_ids[position], params)
    limit = noise_limit(llm, [*ids, *reference[:position]], width)
    assert gap <= limit, f"no tie: at {position} plain decoding prefers its token by {gap:g}, rounding makes {limit:g}"
    return Tie(position, gap, limit)


def chi_square(outcomes: Sequence[Hashable], law: Mapping[Hashable, float]) -> tuple[float, float]:
    """DIST's statistic and its limit at 1e-4; infinite where something came out that the law rules out.

    Outcomes that are expected less than 5 times are counted as one.
    """
    counts, n = Counter(outcomes), len(outcomes)
    possible = {outcome: p for outcome, p in law.items() if p > 0}
    assert math.isclose(sum(possible.values()), 1, abs_tol=1e-6), "the law of a case adds up to 1"
    if set(counts) - set(possible):
        return math.inf, 0.0
    common = [outcome for outcome, p in possible.items() if n * p >= 5]
    pairs = [(counts[outcome], n * possible[outcome]) for outcome in common]
    seen, expected = (sum(column) for column in zip(*pairs, strict=True))
    if n - expected > 0.5:
        pairs.append((n - seen, n - expected))
    statistic = sum((got - right) ** 2 / right for got, right in pairs)
    return statistic, float(stats.chi2.isf(LEVEL, max(1, len(pairs) - 1)))


def dist(outcomes: Sequence[Hashable], law: Mapping[Hashable, float] | Sequence[float]) -> None:
    """DIST: outcomes follow the law (by outcome, or a list of the probabilities of 0, 1, 2, ...)."""
    statistic, limit = chi_square(outcomes, law if isinstance(law, Mapping) else dict(enumerate(law)))
    assert statistic <= limit, f"chi-square {statistic:.1f}, limit {limit:.1f}"


def not_dist(outcomes: Sequence[Hashable], law: Mapping[Hashable, float] | Sequence[float]) -> None:
    """The opposite, for wrong variants: the test would see them."""
    statistic, limit = chi_square(outcomes, law if isinstance(law, Mapping) else dict(enumerate(law)))
    assert statistic > limit


def books(llm: LLM) -> tuple[int, int, int, int]:
    """Free pages, promised pages, what running requests still wish for, free rows."""
    pool, rows = llm.loaded.pool, llm._engine.parts.rows
    return pool.free_pages, pool.promised, int(pool._wished.sum()), len(rows.free_slots())


@contextmanager
def ledger(llm: LLM) -> Iterator[None]:
    """LEDGER: cache and rows of `llm` are the same after the block as before it, and its parts keep no request."""
    before = books(llm)
    yield
    assert books(llm) == before
    parts = llm._engine.parts
    assert not llm._engine.busy
    assert not any(parts.sampler.params)
    for part in (parts.drafter, parts.pacer):
        for name in ("_states", "_histories", "admitted"):
            assert not getattr(part, name, None), f"{type(part).__name__} keeps {name}"

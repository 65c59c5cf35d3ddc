"""The law of each emitted token worked out by hand from the logits it was picked from: DIST for whole outputs.

Needs outputs with `logprobs` of the whole vocabulary, which are those of the raw logits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from tests.cases.verdicts import chi_square

from glimpse.outputs import GenerationOutput, TokenLogprob


def law_of(
    entry: TokenLogprob,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    allowed: Collection[int] | None = None,
) -> dict[int, float]:
    """The law of one position, likeliest first: temperature, then min_p, top_k, top_p."""
    scores = [(token, logprob) for token, logprob in entry.top if allowed is None or token in allowed]
    best = scores[0][1]
    weights = [(token, math.exp((logprob - best) / temperature)) for token, logprob in scores]
    kept = [(token, weight) for token, weight in weights if weight >= min_p][: top_k or None]
    mass, inside, nucleus = sum(weight for _, weight in kept), 0.0, []
    for token, weight in kept:
        if nucleus and inside / mass >= top_p:
            break
        nucleus.append((token, weight))
        inside += weight
    return {token: weight / inside for token, weight in nucleus}


def _ranks(outputs: Sequence[GenerationOutput], options: dict[str, object]) -> Iterator[tuple[int, list[float]]]:
    for out in outputs:
        for entry in out.logprobs:
            law = law_of(entry, **options)
            assert entry.token_id in law, f"token {entry.token_id} was emitted and has no probability"
            yield list(law).index(entry.token_id), list(law.values())


def score(outputs: Sequence[GenerationOutput], **options: object) -> tuple[float, float]:
    """Chi-square and limit of the ranks of all emitted tokens (0: the likeliest) against the mean of their laws."""
    ranks, mean = [], [0.0] * 300
    for rank, law in _ranks(outputs, options):
        ranks.append(rank)
        for index, p in enumerate(law):
            mean[index] += p
    return chi_square(ranks, {index: p / len(ranks) for index, p in enumerate(mean)})


def dist_of_outputs(outputs: Sequence[GenerationOutput], **options: object) -> None:
    """DIST over all emitted tokens; fails at once for one outside its law."""
    statistic, limit = score(outputs, **options)
    assert statistic <= limit, f"chi-square {statistic:.1f}, limit {limit:.1f}"

"""Laws worked out with plain Python, and chi-square tests of 20,000 draws against them."""

import math
from itertools import accumulate

import pytest
import torch
from scipy import stats

from glimpse.acceptance import NodeNoise
from glimpse.drafting.drafter import Draft

DRAWS = 20_000
LEVEL = 1e-4


def naive_law(logits, prompt, output, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0,
              frequency_penalty=0.0, presence_penalty=0.0, logit_bias=None, suppress_tokens=()):  # fmt: skip
    """The law of the next token, a list of probabilities, in the documented order of options."""
    scores = []
    for token, s in enumerate(logits):
        if token in prompt or token in output:
            s = s / repetition_penalty if s > 0 else s * repetition_penalty
        s -= frequency_penalty * output.count(token) + presence_penalty * (token in output)
        s += (logit_bias or {}).get(token, 0.0)
        scores.append(-math.inf if token in suppress_tokens else s)
    if temperature == 0:
        best = scores.index(max(scores))
        return [float(token == best) for token in range(len(scores))]
    weights = {token: math.exp((s - max(scores)) / temperature) for token, s in enumerate(scores)}
    ranked = sorted(weights, key=lambda token: -weights[token])
    kept = [token for token in ranked if weights[token] >= min_p and weights[token] > 0][: top_k or None]
    mass = sum(weights[token] for token in kept)
    reached = list(accumulate(weights[token] / mass for token in kept))
    kept = kept[: 1 + next((i for i, r in enumerate(reached) if r >= top_p), len(kept))]
    mass = sum(weights[token] for token in kept)
    return [weights[token] / mass if token in kept else 0.0 for token in range(len(scores))]


def chi_square(outcomes, law):
    """(statistic, limit at 1e-4) of outcomes (a list of indices) against a law; infinite where the law has no mass."""
    counts = torch.bincount(torch.as_tensor(outcomes), minlength=len(law)).tolist()
    n = sum(counts)
    possible = [i for i, p in enumerate(law) if p > 0]
    if len(counts) > len(law) or sum(counts[i] for i in possible) != n:
        return math.inf, 0.0
    statistic = sum((counts[i] - n * law[i]) ** 2 / (n * law[i]) for i in possible)
    return statistic, float(stats.chi2.ppf(1 - LEVEL, max(1, len(possible) - 1)))


def chains(tokens, law=None):
    """A Draft of one chain a row from a tensor [R, d]."""
    rows, depth = tokens.shape
    n = rows * depth
    parents = torch.arange(-1, depth - 1).repeat(rows)
    offsets = tuple(range(0, n + 1, depth)) if depth else (0,) * (rows + 1)
    return Draft(tokens.flatten(), parents, offsets, torch.ones(n), torch.zeros(n, dtype=torch.uint8), law)


def noise_of(rows, depth, first=10):
    """Every row has a seed of its own; positions start at `first`."""
    seeds = torch.arange(rows).repeat_interleave(depth + 1)
    return NodeNoise(seeds, torch.arange(first, first + depth + 1).repeat(rows))


@pytest.fixture
def law_by_hand():
    return naive_law


@pytest.fixture
def fits():
    """Whether outcomes fit a law at the level 1e-4."""

    def check(outcomes, law):
        statistic, limit = chi_square(outcomes, law)
        return statistic <= limit

    return check


@pytest.fixture
def batch():
    """(draws, chains, noise_of): the tools for one batch of independent draws."""
    return DRAWS, chains, noise_of

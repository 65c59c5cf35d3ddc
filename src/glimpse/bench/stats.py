"""The statistics that results are stated in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import TypeVar

import numpy as np
import torch

Group = TypeVar("Group")


@dataclass(frozen=True, slots=True)
class Summary:
    """A median with its spread."""

    median: float
    low: float
    """First quartile."""
    high: float
    """Third quartile."""
    count: int

    def to_json(self) -> dict[str, float]:
        """As an object."""
        return asdict(self)


def summary(values: Sequence[float]) -> Summary:
    """Median and quartiles; raises ValueError for none."""
    if not values:
        raise ValueError("no values to summarise")
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0], 0.0, values[0])
    return Summary(median(values), low, high, len(values))


def bootstrap(
    groups: Sequence[Group], statistic: Callable[[Sequence[Group]], float], *, draws: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """The interval of `statistic` when whole groups (prompts, say) are drawn anew with replacement; seeded."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(groups), size=(draws, len(groups)))
    values = [statistic([groups[index] for index in row]) for row in picks]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """How well counts fit a law."""

    statistic: float
    freedom: int
    p_value: float


def chi_square(counts: Sequence[int], law: Sequence[float], *, least: float = 5.0) -> ChiSquare:
    """Pearson's test of counts against a law. Outcomes expected fewer than `least` times are put together.

    A count where the law has no mass gives an infinite statistic and p = 0.
    """
    total = sum(counts)
    if len(counts) != len(law) or any(count and not p for count, p in zip(counts, law, strict=True)):
        return ChiSquare(math.inf, 0, 0.0)
    pairs = sorted((p * total, count) for count, p in zip(counts, law, strict=True) if p)
    bins: list[list[float]] = []
    for expected, count in pairs:
        if bins and bins[-1][0] < least:
            bins[-1][0] += expected
            bins[-1][1] += count
        else:
            bins.append([expected, count])
    statistic = sum((count - expected) ** 2 / expected for expected, count in bins)
    freedom = len(bins) - 1
    return ChiSquare(statistic, freedom, _upper_tail(statistic, freedom))


def _upper_tail(statistic: float, freedom: int) -> float:
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def distinct_share(tokens: Sequence[int], width: int = 4) -> float:
    """Different n-grams over all n-grams of a text: 1 repeats nothing; greedy text of a small model repeats itself."""
    grams = [tuple(tokens[start : start + width]) for start in range(len(tokens) - width + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0

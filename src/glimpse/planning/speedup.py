"""The efficiency analysis of self-speculation (SparseSpec-L, arXiv 2607.27735, "efficiency model"), on expected values.

Times are in plain steps: a draft step costs c, a verification of g drafts costs v(g). With a_i the probability that
draft token i is accepted, given that all before it were, a round of g drafts writes

    E(g) = 1 + a_1 + a_1 a_2 + ... + a_1 ... a_g        tokens (the target's own one counted)
    S(g) = E(g) / (g c + v(g))                          times as fast as plain decoding

The paper writes E(g) = alpha g + 1 with alpha the mean acceptance, and v = 1. One more draft pays while what it is
expected to add, a_1 ... a_g, is more than S times what it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from glimpse.errors import ArgumentError

MOST = 32
"""The longest draft that is looked at."""
FALL = 8
"""Depth at which a falling acceptance has reached its end."""

Cost = Callable[[int], float]
"""v(g): the cost of verifying g drafts (g + 1 tokens), in plain steps."""


class Chances(Protocol):
    """Conditional acceptance by depth."""

    def at(self, depth: int) -> float:
        """P(token `depth` of a draft is accepted, given that all before it were); depths count from 1."""


@dataclass(frozen=True, slots=True)
class ByDepth:
    """Acceptance measured depth by depth; past the last one it stays as there."""

    chances: tuple[float, ...]

    def at(self, depth: int) -> float:
        """See `Chances`."""
        return self.chances[min(depth, len(self.chances)) - 1]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Conditional acceptance by depth: `first` at depth 1, falling in a line to `last` at depth 8, flat from there."""

    first: float
    last: float

    def __post_init__(self) -> None:
        for value in (self.first, self.last):
            if not 0 <= value <= 1:
                raise ArgumentError(
                    f"acceptance {value:g} is not a probability; give 0 to 1, for example 0.9 or 0.94:0.86"
                )

    def at(self, depth: int) -> float:
        """See `Chances`."""
        gone = min(depth - 1, FALL - 1) / (FALL - 1)
        return self.first + (self.last - self.first) * gone

    def __str__(self) -> str:
        return f"{self.first:g}" if self.first == self.last else f"{self.first:g}:{self.last:g}"


def parse_acceptance(text: str) -> Acceptance:
    """`0.9` (the same at every depth) or `0.94:0.86` (falling). Raises ArgumentError for anything else."""
    first, falls, last = text.partition(":")
    try:
        return Acceptance(float(first), float(last if falls else first))
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"acceptance {text!r} is neither a number nor FIRST:LAST, for example 0.94:0.86") from None


def draft_cost(r: float, share: float) -> float:
    """c = (W + rho K) / (W + K) with r = K / W: what bytes alone say a draft step costs, in plain steps."""
    return (1 + share * r) / (1 + r)


def tokens_per_round(acceptance: Chances, drafted: int) -> float:
    """E(g): tokens that a round of `drafted` drafts writes, the target's own one counted."""
    tokens, reached = 1.0, 1.0
    for depth in range(1, drafted + 1):
        reached *= acceptance.at(depth)
        tokens += reached
    return tokens


def speedup(acceptance: Chances, drafted: int, draft: float, verify: Cost) -> float:
    """S(g). 0 drafts is plain decoding: 1."""
    return tokens_per_round(acceptance, drafted) / (drafted * draft + verify(drafted)) if drafted else 1.0


@dataclass(frozen=True, slots=True)
class Best:
    """The draft length with the highest expected speedup."""

    drafted: int
    """0: plain decoding is best."""
    speedup: float
    tokens: float
    """Tokens a round writes at that length."""


def best_length(acceptance: Chances, draft: float, verify: Cost, most: int = MOST) -> Best:
    """argmax over g = 0 ... most of S(g); the shortest on a tie."""
    rates = [speedup(acceptance, drafted, draft, verify) for drafted in range(most + 1)]
    drafted = rates.index(max(rates))
    return Best(drafted, rates[drafted], tokens_per_round(acceptance, drafted))


def break_even(draft: float, verify: Cost, most: int = MOST) -> float | None:
    """The smallest acceptance, equal at all depths, at which some draft pays; None if not even 1.0 does."""
    if best_length(Acceptance(1, 1), draft, verify, most).drafted == 0:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if best_length(Acceptance(middle, middle), draft, verify, most).drafted:
            high = middle
        else:
            low = middle
    return high

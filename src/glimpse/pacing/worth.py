"""The marginal criterion: which nodes of drafts are worth verifying (chains are trees)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glimpse.pacing.costs import FEATURES, StepCosts
from glimpse.pacing.proposals import Floats, Ints

_TOKEN, _READ, _PAIR = map(FEATURES.index, ("full_tokens", "full_kv", "pairs"))


def node_prices(costs: StepCosts) -> tuple[float, float]:
    """Seconds that one more token of a row without a text adds to a verification, and what each position that it reads
    adds to that."""
    seconds = costs.coefficients
    return float(seconds[_TOKEN] + seconds[_READ]), float(seconds[_PAIR])


def token_prices(costs: StepCosts, lengths: int | Sequence[int] | Ints) -> Floats:
    """[R]: seconds that one more token of rows of these lengths adds to a verification."""
    token, position = node_prices(costs)
    return np.asarray(token + position * np.asarray(lengths, np.float64))


@dataclass(frozen=True, slots=True)
class StepPrices:
    """What steps of some rows cost in which a node costs the same, whoever's it is."""

    rows: int
    plain: float
    """Seconds of a step with no draft at all."""
    taken: Floats
    """[n + 1] seconds of steps with 0, 1, ... nodes."""

    def first(self, gains: Sequence[Floats]) -> Ints:
        """The nodes of the first row that are worth verifying, likeliest first; `gains` as for `worthwhile`, of all."""
        gain = np.concatenate(gains)
        order = np.argsort(-gain, kind="stable")
        kept = order[: _best(gain[order], self.taken[1 : len(gain) + 1], self.rows, self.plain)]
        return np.asarray(kept[kept < len(gains[0])])


def worthwhile(
    gains: Sequence[Floats], prices: Sequence[float] | Floats, rows: int, seconds: tuple[float, float],
    extra: Floats | None = None,
) -> list[Ints]:  # fmt: skip
    """The nodes of each row that are worth verifying, likeliest first.

    `gains` are the probabilities of each row's nodes, `prices` the seconds that one node of it adds to a step of
    `rows` rows, whose `seconds` are those that nodes are added to and those of a step with no draft at all. `extra`
    [nodes + 1]: what steps of 0, 1, ... nodes take beyond that.
    """
    counts = [len(row) for row in gains]
    gain, price = np.concatenate(gains), np.repeat(np.maximum(prices, 1e-12), counts)
    order = np.argsort(-gain / price, kind="stable")
    taken = seconds[0] + np.cumsum(price[order]) + (0.0 if extra is None else extra[1:])
    best = _best(gain[order], taken, rows, seconds[1])
    owner, node = np.repeat(np.arange(len(counts)), counts), np.concatenate([np.arange(count) for count in counts])
    kept = order[:best]
    together = kept[np.argsort(owner[kept], kind="stable")]
    sizes = np.bincount(owner[kept], minlength=len(counts))
    return np.split(node[together], np.cumsum(sizes)[:-1])


def _best(gain: Floats, taken: Floats, rows: int, plain: float) -> int:
    """How many nodes bring the most tokens a second, the best first: of the probabilities `gain` [n], in steps that
    then take `taken` [n] seconds, or `plain` without any."""
    if not len(gain):
        return 0
    rates = (rows + np.cumsum(gain)) / taken
    best = int(rates.argmax())
    return best + 1 if rates[best] > rows / plain else 0

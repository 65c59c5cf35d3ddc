"""What can be believed of a block's tokens: the drafter's word, what a request learns of it, and a fitted map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.block_traces import offered
from benchmarks.libra_replay import RIGHT, WRONG
from benchmarks.libra_traces import Start
from glimpse.pacing.proposals import Floats, Ints, Proposal, Trust
from glimpse.pacing.reliability import NEAREST

Texts = Sequence[Sequence[Start]]
SUREST = 0.995
PULL = 1e-3
"""Keeps the coefficients of a fit finite."""


def as_offered(start: Start) -> Start:
    """The block cut to what its drafter offers."""
    count = offered(start)
    return Start(start.confidence[:count], (), start.margin[:count], min(start.right, count))


def said(texts: Texts) -> list[Floats]:
    """The probability of the token drawn, as LibraSpec takes it."""
    return [np.array(start.confidence) for text in texts for start in text]


def taught(texts: Texts) -> list[Floats]:
    """What `marginal` makes of it: corrected by what the blocks that the request verified have taught."""
    found = []
    for text in texts:
        trust, due = Trust(), 0
        for place, start in enumerate(text):
            proposal = _proposal(start)
            found.append(trust.chances(proposal))
            if place == due:
                trust.learn(proposal, [RIGHT] * (start.right + 1))
                due += start.right + 1
    return found


def _proposal(start: Start) -> Proposal:
    count = len(start.confidence)
    tokens: Ints = np.array([RIGHT] * start.right + [WRONG] * (count - start.right), np.int64)
    places = np.arange(count, dtype=np.int64)
    return Proposal(tokens, places - 1, np.array(start.confidence), np.zeros(count, np.int64), places + 1)


@dataclass(frozen=True, slots=True)
class Map:
    """Log-odds of a token, given those before it: a line through facts of it."""

    weights: Floats
    """[4]: a constant, the logarithm of the margin, the log-odds that the drafter says, the place in the block."""

    @classmethod
    def fitted(cls, texts: Texts) -> Map:
        """A logistic regression on all tokens up to the first wrong one of every block (Newton's method)."""
        starts = [start for text in texts for start in text if start.confidence]
        counts = [min(start.right + 1, len(start.confidence)) for start in starts]
        facts = np.concatenate([_facts(start)[:count] for start, count in zip(starts, counts, strict=True)])
        rights = [np.arange(count) < start.right for start, count in zip(starts, counts, strict=True)]
        right, weights = np.concatenate(rights), np.zeros(facts.shape[1])
        for _ in range(25):
            chance = 1 / (1 + np.exp(-(facts @ weights)))
            slope = facts.T @ (right - chance) - PULL * weights
            curve = (facts * (chance * (1 - chance))[:, None]).T @ facts + PULL * np.eye(len(weights))
            weights = weights + np.linalg.solve(curve, slope)
        return cls(weights)

    def chances(self, start: Start) -> Floats:
        """[n]: of each token."""
        return np.asarray(np.minimum(1 / (1 + np.exp(-(_facts(start) @ self.weights))), SUREST))

    def told(self, texts: Texts) -> list[list[Start]]:
        """The blocks, this map's word in the place of the drafter's."""
        return [[replace(start, confidence=tuple(self.chances(start).tolist())) for start in text] for text in texts]


def _facts(start: Start) -> Floats:
    chance = np.clip(np.array(start.confidence), 0.002, 0.998)
    columns = np.log(np.array(start.margin) + NEAREST), np.log(chance / (1 - chance)), np.arange(len(chance))
    return np.column_stack([np.ones(len(chance)), *columns])

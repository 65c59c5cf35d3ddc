"""One request as a source of suffix drafts: its text's index, perhaps a store, and what it learned of its matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.lookup import PRIOR, MatchRates
from glimpse.drafting.suffix.index import NOTHING, Proposal, SuffixIndex
from glimpse.drafting.suffix.store import Follower, SuffixStore
from glimpse.drafting.tree import Source, Tree

FACTOR = 4.0
"""Nodes drafted for each matched token: of SuffixDecoding's range, 1 to 4, what accepted most on answers of the demo
model; a pacer that prices nodes still drops those that do not pay."""

REHEARSED = [0] * 200
"""A text that runs every loop: with a match at its end, and longer than an index has room for at first."""


class SuffixSource:
    """Drafts what followed the longest match of the text's end, at most `factor` nodes a matched token."""

    def __init__(self, factor: float = FACTOR, store: SuffixStore | None = None) -> None:
        self.factor = factor
        self._index = SuffixIndex()
        self._follower = Follower(store) if store is not None else None
        self._rates = MatchRates()
        self._table = self._tabulate()
        self._last = NOTHING

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        self._index.read(tokens)
        if self._follower is not None:
            self._follower.read(tokens)

    def propose(self, budget: int, depth: int) -> Tree:
        """At most `budget` nodes, `depth` tokens deep; likeliest first."""
        own = self._index.own()
        found = [(self._index, own, Source.SUFFIX)]
        if self._follower is not None:
            found.append((*self._follower.best(), Source.STORE))
        proposals = []
        for index, match, source in found:
            most = min(budget, int(self.factor * match.length))
            proposals.append(index.propose(match, self._table, most, depth, source))
        self._last = max(proposals, key=Proposal.score)
        return self._last.tree

    @classmethod
    def rehearse(cls) -> None:
        """Runs all loops once, so that they are compiled before a request waits for them, a store's among them."""
        source = cls()
        source.read(REHEARSED)
        source.propose(1, 1)
        source._index.follow(source._index.own(), REHEARSED[:1])

    def learn(self, committed: Sequence[int]) -> None:
        """What the last proposal was worth: `committed` are the tokens that came instead, before they are read."""
        last, node = self._last, -1
        if len(last.tree) == 0:
            return
        for token in committed:
            match = last.match if node < 0 else int(last.matches[node])
            children = np.flatnonzero(last.tree.parents == node)
            if len(children) == 0:
                break
            right = children[last.tree.tokens[children] == token]
            self._rates.observe(match, len(right) > 0)
            if len(right) == 0:
                break
            node = int(right[0])
        self._last = NOTHING
        self._table = self._tabulate()

    def _tabulate(self) -> NDArray[np.float64]:
        """[9] P(next token is known) after a match of 1, 2, ... tokens."""
        return np.array([self._rates.rate(match) for match in range(1, len(PRIOR) + 1)])

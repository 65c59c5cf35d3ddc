"""Every substring of one text: the longest match of its end, and what followed matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.suffix import states
from glimpse.drafting.suffix.growing import grow
from glimpse.drafting.tree import EMPTY, Source, Tree

_FIRST = 64
"""Tokens that fit before the arrays grow."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a suffix of some text occurs in an index."""

    state: int
    length: int
    """Tokens matched; 0 for none."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft, and after matches of how many tokens its nodes come."""

    tree: Tree
    match: int
    """Length of the match that the draft follows."""
    matches: NDArray[np.int64]
    """[n] of each node with what it continues, itself included."""

    def score(self) -> float:
        """Expected accepted tokens: by it one index is preferred to another (SuffixDecoding, arXiv 2411.04975)."""
        return float(self.tree.reach.sum())


NOTHING = Proposal(EMPTY, 0, np.zeros(0, np.int64))


class SuffixIndex:
    """A suffix automaton over one text, or over several with separators between them. Up to about 140 bytes a token."""

    def __init__(self) -> None:
        self._states = np.zeros((2 * _FIRST, states.STATE_FIELDS), np.int32)
        self._edges = np.zeros((3 * _FIRST, states.EDGE_FIELDS), np.int32)
        self._buckets = np.zeros(8 * _FIRST, np.int32)
        self._states[0, states.LINK] = -1
        self._meta = np.array([1, 1, 0])
        self._separators = 0

    def __len__(self) -> int:
        """Tokens read, separators included."""
        return int(self._states[self._meta[states.LAST], states.LENGTH])

    @property
    def nbytes(self) -> int:
        """Memory that the text takes."""
        return self._states.nbytes + self._edges.nbytes + self._buckets.nbytes

    def read(self, tokens: Sequence[int] | NDArray[np.int64]) -> None:
        """Appends tokens (each >= 0) to the text. O(1) a token, amortised."""
        read = np.asarray(tokens, np.int64)
        self._reserve(len(read))
        states.read(self._states, self._edges, self._buckets, self._meta, read)

    def separate(self) -> None:
        """Ends a text: no match and no draft runs over this place."""
        self._separators += 1
        self.read([-self._separators])

    def own(self) -> Match:
        """The longest suffix of the text that occurs earlier in it."""
        state = max(0, int(self._states[self._meta[states.LAST], states.LINK]))
        return Match(state, int(self._states[state, states.LENGTH]))

    def follow(self, match: Match, tokens: Sequence[int] | NDArray[np.int64]) -> Match:
        """The longest match of another text's end, which `match` was before `tokens` came. O(1) a token, amortised."""
        read = np.asarray(tokens, np.int64)
        found = states.follow(self._states, self._edges, self._buckets, match.state, match.length, read)
        return Match(*found)

    def propose(self, match: Match, rates: NDArray[np.float64], budget: int, depth: int, source: Source) -> Proposal:
        """What followed the match: the likeliest `budget` nodes down to `depth`.

        `rates[m - 1]` is the probability that the token after a match of m tokens is one that came there before (the
        last entry for all longer matches); it is shared among them by how often they came.
        """
        if min(match.length, budget, depth) < 1:
            return NOTHING
        tokens, parents, matches = (np.empty(budget, np.int64) for _ in range(3))
        reach = np.empty(budget, np.float32)
        count = grow(
            self._states, self._edges, match.state, match.length, rates, depth, tokens, parents, reach, matches
        )
        tree = Tree(tokens[:count], parents[:count], reach[:count], np.full(count, source, np.uint8))
        return Proposal(tree, match.length, matches[:count])

    def _reserve(self, tokens: int) -> None:
        """A text of n tokens has at most 2n states and 3n edges; the hash table stays at most half full.

        One token can bring many edges, but never more than the text's length allows.
        """
        length = len(self) + tokens
        self._states = _grown(self._states, 2 * length + 1)
        self._edges = _grown(self._edges, 3 * length + 1)
        if 2 * len(self._edges) > len(self._buckets):
            self._buckets = np.zeros(1 << (2 * len(self._edges)).bit_length(), np.int32)
            states.rehash(self._edges, self._buckets, self._meta)


def _grown(array: NDArray[np.int32], rows: int) -> NDArray[np.int32]:
    if rows <= len(array):
        return array
    larger = np.zeros((max(rows, 2 * len(array)), array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger

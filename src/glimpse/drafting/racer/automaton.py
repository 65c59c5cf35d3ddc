"""The retrieval automaton of one request: reads its tokens, proposes what followed them before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.racer import ngrams
from glimpse.drafting.racer.pooling import pool
from glimpse.drafting.tree import Source, Tree
from glimpse.errors import ArgumentError

SHORTEST = 1
"""Contexts of fewer tokens contribute nothing. RACER (section 3) has 2; that yielded 0.26 to 0.39 tokens a round fewer,
with recycled logits beside it 0.03 to 0.13 fewer (`cpu-retrieval_acceptance.json`, 16 to 96 nodes)."""


class Automaton:
    """Aho–Corasick automaton over the n-grams of one text, at most `capacity` of them; see `racer.ngrams`.

    Takes 40 bytes a node and 8 to 16 for the hash table.
    """

    def __init__(self, capacity: int = 10_000, length: int = 10, shortest: int = SHORTEST) -> None:
        """n-grams of at most `length` tokens; contexts of at least `shortest` contribute.

        Raises ArgumentError for a capacity below the n-grams of two windows, or where no context could contribute.
        """
        least = length * (length + 1)
        if length < 2 or capacity < least:
            raise ArgumentError(f"{capacity} nodes for n-grams of {length}: give a length >= 2 and >= {least} nodes")
        if not 1 <= shortest < length:
            raise ArgumentError(f"contexts of {shortest} tokens for n-grams of {length}: give 1 to {length - 1}")
        self.capacity, self.length, self.shortest = capacity, length, shortest
        self._nodes = np.zeros((capacity + 1, ngrams.FIELDS), np.int32)
        self._buckets = np.zeros(1 << (2 * capacity).bit_length(), np.int32)
        self._ends = np.zeros(length + 1, np.int32)
        self._meta = np.array([1, 0, -1])

    def __len__(self) -> int:
        """Nodes in use, without the root."""
        return int(self._meta[ngrams.USED]) - 1

    def read(self, tokens: Sequence[int] | NDArray[np.int64]) -> None:
        """Appends tokens to the text."""
        ngrams.read(self._nodes, self._buckets, self._ends, self._meta, np.asarray(tokens, np.int64))

    @property
    def last(self) -> int:
        """The text's last token; -1 before there is one."""
        return int(self._meta[ngrams.LAST])

    @property
    def arrays(self) -> tuple[ngrams.Nodes, ngrams.Buckets, ngrams.Ends, ngrams.Meta]:
        """All that it is, for loops over many of them."""
        return self._nodes, self._buckets, self._ends, self._meta

    @property
    def state(self) -> tuple[ngrams.Nodes, int, int, int]:
        """The nodes, the one of the text's longest suffix, and the lengths of n-grams and of the shortest context."""
        return self._nodes, int(self._ends[self._meta[ngrams.HELD]]), self.length, self.shortest

    def propose(self, budget: int, depth: int) -> Tree:
        """The likeliest continuations of the text: at most `budget` nodes, `depth` tokens deep, likeliest first."""
        tokens, parents = np.empty(budget, np.int64), np.empty(budget, np.int64)
        reach = np.empty(budget, np.float32)
        count = pool(*self.state, depth, tokens, parents, reach) if depth > 0 else 0
        source = np.full(count, Source.AUTOMATON, np.uint8)
        return Tree(tokens[:count], parents[:count], reach[:count], source)

"""Growing branches on a spine, likeliest first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from glimpse.drafting.tree import Source, Tree

Choices = Sequence[tuple[int, float]]
"""Tokens that may come next with the chance of each, likeliest first."""
FLOOR = 0.01
"""Nodes less likely than this are not proposed."""


@dataclass(frozen=True, slots=True)
class Spine:
    """A drafted chain of n tokens."""

    tokens: Sequence[int]
    chances: Sequence[float]
    """[n] each token's probability once the ones before it are accepted."""
    beside: Sequence[Choices]
    """n times what may stand in the place of a token of the spine, in the light of what was drafted before it."""


@dataclass(slots=True)
class Growth:
    """A tree in the making: the spine, then branches in the order of their probability, at most `budget` nodes.

    `following(token)` is what may come after any token; branches and the end of the spine go on with it.
    """

    budget: int
    depth: int
    following: Callable[[int], Choices]
    sources: Set[Source]
    """Which kinds of branches are wanted."""
    _tokens: list[int] = field(default_factory=list)
    _parents: list[int] = field(default_factory=list)
    _reach: list[float] = field(default_factory=list)
    _source: list[int] = field(default_factory=list)
    _depths: list[int] = field(default_factory=list)
    _children: set[tuple[int, int]] = field(default_factory=set)
    _heap: list[tuple[float, int, int, Source, int, Choices]] = field(default_factory=list)
    """(minus the probability, how many there were before, parent, source, index in the choices, the choices)."""
    _offered: int = 0

    def grow(self, spine: Spine) -> Tree:
        """The tree of one spine."""
        parent = -1
        for token, chance in list(zip(spine.tokens, spine.chances, strict=True))[: min(self.budget, self.depth)]:
            parent = self._add(parent, token, self._above(parent) * chance, Source.SPINE)
        for place, choices in enumerate(spine.beside[: len(self._tokens)]):
            self._offer(place - 1, Source.RUNNER_UP, choices)
        if parent >= 0:
            self._offer(parent, Source.LOGITS, self.following(self._tokens[parent]))
        while self._heap and len(self._tokens) < self.budget:
            self._take()
        facts = (self._tokens, self._parents, self._reach, self._source)
        kinds = (np.int64, np.int64, np.float32, np.uint8)
        return Tree(*(np.array(fact, kind) for fact, kind in zip(facts, kinds, strict=True)))

    def _above(self, parent: int) -> float:
        return self._reach[parent] if parent >= 0 else 1.0

    def _add(self, parent: int, token: int, reach: float, source: int) -> int:
        self._depths.append(1 + (self._depths[parent] if parent >= 0 else 0))
        self._tokens.append(token)
        self._parents.append(parent)
        self._reach.append(reach)
        self._source.append(source)
        self._children.add((parent, token))
        return len(self._tokens) - 1

    def _offer(self, parent: int, source: Source, choices: Choices, index: int = 0) -> None:
        """Puts the best of the choices from `index` on into the heap, where it is deep and likely enough."""
        if source in self.sources and index < len(choices) and (parent < 0 or self._depths[parent] < self.depth):
            reach = self._above(parent) * choices[index][1]
            if reach >= FLOOR:
                heapq.heappush(self._heap, (-reach, self._offered, parent, source, index, choices))
                self._offered += 1

    def _take(self) -> None:
        """Makes the likeliest entry a node; the next choice takes its place, and what may follow comes in."""
        lost, _, parent, source, index, choices = heapq.heappop(self._heap)
        token = choices[index][0]
        if (parent, token) not in self._children:
            node = self._add(parent, token, -lost, source)
            self._offer(node, Source.LOGITS, self.following(token))
        self._offer(parent, source, choices, index + 1)

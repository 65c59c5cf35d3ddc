"""One row's draft tree on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from glimpse.drafting.drafter import Draft


class Source(IntEnum):
    """What made a node; the values stand in `Draft.source`."""

    LOOKUP = 0
    """The longest earlier match of a few tokens (`lookup`); also a drafter with one source only."""
    AUTOMATON = 1
    """n-grams of the request (`racer.automaton`)."""
    LOGITS = 2
    """Recycled logits (`racer.successors`)."""
    SUFFIX = 3
    """The longest match in the request's own text (`suffix.index`)."""
    STORE = 4
    """The longest match in a store of earlier requests (`suffix.store`)."""
    SPINE = 5
    """A draft token of the target's own (`spine.drafter`)."""
    RUNNER_UP = 6
    """What would have been drafted in its place, were it not there (`spine.drafter`)."""


@dataclass(slots=True)  # frozen ones take three times as long to make, and every row makes some a step
class Tree:
    """A draft tree of n nodes: parents come before children, siblings differ, no node is likelier than its parent."""

    tokens: NDArray[np.int64]
    """[n] the token of each node."""
    parents: NDArray[np.int64]
    """[n] each node's parent; -1 is the last committed token."""
    reach: NDArray[np.float32]
    """[n] probability that the text runs through the node, as its source reckons."""
    source: NDArray[np.uint8]
    """[n] the `Source` of each node."""

    def __len__(self) -> int:
        return len(self.tokens)

    def path(self, continuation: Iterable[int]) -> list[int]:
        """The nodes that `continuation` runs through, from the first depth on."""
        nodes: list[int] = []
        for token in continuation:
            child = self._child(nodes[-1] if nodes else -1, token)
            if child < 0:
                break
            nodes.append(child)
        return nodes

    def _child(self, parent: int, token: int) -> int:
        found = np.flatnonzero((self.parents == parent) & (self.tokens == token))
        return int(found[0]) if len(found) else -1


EMPTY = Tree(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.uint8))


def chain_tree(tokens: Sequence[int], confidence: Sequence[float]) -> Tree:
    """A chain of tokens by a drafter with one source only, and how likely each is once those before it are accepted."""
    reach = np.cumprod(np.asarray(confidence, np.float32), dtype=np.float32)
    count = len(tokens)
    return Tree(np.array(tokens, np.int64), np.arange(-1, count - 1), reach, np.full(count, Source.LOOKUP, np.uint8))


class HostSource(Protocol):
    """Drafts for one request out of what was read so far; no forward is needed."""

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""

    def propose(self, budget: int, depth: int) -> Tree:
        """At most `budget` nodes, `depth` tokens deep; likeliest first."""

    def learn(self, committed: Sequence[int]) -> None:
        """What came instead of the last proposal, before it is read; nothing came: that proposal is dropped."""


TOGETHER, EACH = 768, 8
"""Nodes that a batch is drafted where a pacer prices them, and at least for each row. A step of 300 tokens and more is
bound by arithmetic on any GPU (an H200: 790 TFLOP/s over 4.3 TB/s is 180 products a weight): beyond that nodes rarely
pay, and each that is proposed takes the host a microsecond in which the device waits."""


def nodes_each(budget: int, rows: int, *, priced: bool) -> int:
    """Of a row's tree, at most, in a batch of `rows`."""
    return min(budget, max(EACH, TOGETHER // max(1, rows))) if priced else budget


_ROOT = np.ones(1, np.float32)


def draft_of(trees: Sequence[Tree]) -> Draft:
    """The rows' trees as one draft; a node's confidence is its probability once its parent is accepted."""
    offsets = tuple(accumulate(map(len, trees), initial=0))
    laid = trees or [EMPTY]
    tokens, parents = _joined([tree.tokens for tree in laid]), _joined([tree.parents for tree in laid])
    reach, source = _joined([tree.reach for tree in laid]), _joined([tree.source for tree in laid])
    # Place 0 is the last committed token of any row.
    places = parents + 1
    if len(trees) > 1:
        places += np.where(parents < 0, 0, np.repeat(offsets[:-1], [len(tree) for tree in trees]))
    above = np.concatenate((_ROOT, reach))[places]
    return Draft(
        tokens=torch.from_numpy(tokens),
        parents=torch.from_numpy(parents),
        offsets=offsets,
        confidence=torch.from_numpy(reach / above),
        source=torch.from_numpy(source),
    )


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

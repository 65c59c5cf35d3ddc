"""One trie out of several sources: retrieved nodes first, recycled logits in what is left of the budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.compiled import compiled
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.ngrams import Nodes
from glimpse.drafting.racer.pooling import pool
from glimpse.drafting.racer.successors import SuccessorTable
from glimpse.drafting.tree import Source, Tree

BREADTH = 8
"""Children of the last committed token (RACER, section 3)."""
_LOST = -2
_AUTOMATON, _LOGITS = int(Source.AUTOMATON), int(Source.LOGITS)

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@compiled
def _find(tokens: Ints, parents: Ints, count: int, parent: int, token: int) -> int:
    for node in range(count):
        if parents[node] == parent and tokens[node] == token:
            return node
    return -1


@compiled
def _graft(
    tokens: Ints, parents: Ints, reach: Floats, source: NDArray[np.uint8], count: int,
    new_tokens: Ints, new_parents: Ints, new_reach: Floats, new_source: NDArray[np.uint8],
) -> int:  # fmt: skip
    """Adds a tree's nodes while there is room; a node that is there already keeps the higher probability."""
    place = np.empty(len(new_tokens), np.int64)
    for index in range(len(new_tokens)):
        parent = -1 if new_parents[index] < 0 else place[new_parents[index]]
        node = _LOST if parent == _LOST else _find(tokens, parents, count, parent, new_tokens[index])
        if node >= 0:
            reach[node] = max(reach[node], new_reach[index])
        elif node == -1 and count < len(tokens):
            node = count
            tokens[node], parents[node] = new_tokens[index], parent
            reach[node], source[node] = new_reach[index], new_source[index]
            count += 1
        else:
            node = _LOST
        place[index] = node
    return count


@compiled
def add_successors(
    tokens: Ints, parents: Ints, reach: Floats, source: NDArray[np.uint8], count: int,
    successors: NDArray[np.int32], chances: Floats, root: int, breadth: int, depth: int,
) -> int:  # fmt: skip
    """Breadth first from the last committed token `root` until no node is free; returns the count.

    Child j of a node with breadth b has breadth max(1, b >> j), below the root max(1, b >> (j + 1)), and there are
    min(b, 8) children. Nodes that are there already are gone through like new ones.
    """
    queue = np.empty((len(tokens) + 1, 3), np.int64)
    queue[0, 0], queue[0, 1], queue[0, 2] = -1, breadth, 0
    begin, end = 0, 1
    while begin < end:
        parent, wide, deep = queue[begin, 0], queue[begin, 1], queue[begin, 2]
        begin += 1
        token = root if parent < 0 else tokens[parent]
        if deep == depth or token < 0 or token >= len(successors):
            continue
        above = np.float32(1) if parent < 0 else reach[parent]
        for rank in range(min(wide, successors.shape[1])):
            chance = above * chances[token, rank]
            if chance <= 0:
                break
            node = _find(tokens, parents, count, parent, int(successors[token, rank]))
            if node >= 0:
                reach[node] = max(reach[node], chance)
            elif count == len(tokens):
                return count
            else:
                node = count
                tokens[node], parents[node], reach[node] = successors[token, rank], parent, chance
                source[node] = _LOGITS
                count += 1
            if end == len(queue):  # only where a token's successors are not distinct
                return count
            queue[end, 0], queue[end, 2] = node, deep + 1
            queue[end, 1] = max(1, wide >> (rank if parent < 0 else rank + 1))
            end += 1
    return count


def merge(retrieved: Sequence[Tree], table: SuccessorTable | None, last: int, budget: int, depth: int) -> Tree:
    """At most `budget` nodes: those of `retrieved`, in that order, then the successors of the token `last`.

    `depth` bounds what the table adds. RACER, arXiv 2604.14885, section 3 (merge).
    """
    tokens, parents = np.empty(budget, np.int64), np.empty(budget, np.int64)
    reach, source = np.empty(budget, np.float32), np.empty(budget, np.uint8)
    count = 0
    for tree in retrieved:
        count = _graft(
            tokens, parents, reach, source, count, tree.tokens, tree.parents, tree.reach, tree.source
        )  # fmt: skip
    if table is not None:
        count = add_successors(
            tokens, parents, reach, source, count, table.tokens, table.chances, last, BREADTH, depth
        )  # fmt: skip
    return Tree(tokens[:count], parents[:count], reach[:count], source[:count])


@compiled
def _unite(
    nodes: Nodes, longest: int, length: int, shortest: int, depth: int, successors: NDArray[np.int32], chances: Floats,
    last: int, tokens: Ints, parents: Ints, reach: Floats, source: NDArray[np.uint8],
) -> int:  # fmt: skip
    """Fills the last four; returns the count. The others are those of `pool` and `add_successors`."""
    count = pool(nodes, longest, length, shortest, depth, tokens, parents, reach)
    source[:count] = _AUTOMATON
    return add_successors(tokens, parents, reach, source, count, successors, chances, last, BREADTH, depth)


def unite(automaton: Automaton, table: SuccessorTable, budget: int, depth: int) -> Tree:
    """What `merge` makes of the automaton's proposal, in one compiled call: with many rows calls and copies count."""
    tokens, parents = np.empty(budget, np.int64), np.empty(budget, np.int64)
    reach, source = np.empty(budget, np.float32), np.empty(budget, np.uint8)
    count = _unite(
        *automaton.state, depth, table.tokens, table.chances, automaton.last, tokens, parents, reach, source
    )  # fmt: skip
    return Tree(tokens[:count], parents[:count], reach[:count], source[:count])

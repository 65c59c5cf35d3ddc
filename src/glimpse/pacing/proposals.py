"""What a drafter proposed for one row, and how far its word can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import RowView
from glimpse.drafting.compiled import compiled
from glimpse.drafting.tree import Tree

SOURCES, DEPTHS = 16, 4
"""Cells of the calibration; a greater source or depth counts with the last one."""
SURENESS = (0.15, 0.4, 0.7)
"""Bounds of the probabilities that are looked at apart: who is often right may be wrong whenever it is sure."""
DECAY = 0.95
"""Weight of the past, per round in which a cell was judged."""
PRIOR = 2.0
"""Nodes, right as often as their source says, that every cell begins with and never forgets."""
SUREST = 0.98
"""No node is surer than this, so that a child is always worth less than its parent."""
LEAST = 0.018
"""What a node counts as that its source says less of. Of 2,222 nodes that recycled logits called less likely than 0.01,
0.018 were right where their parents were (replayed, docs/performance.md), of n-grams more: too few for a CPU, where a
node costs 0.03 of a step and more, but several times its price where steps wait for memory."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The n nodes of one row's draft, parents before children."""

    tokens: Ints
    parents: Ints
    said: Floats
    """[n] the drafter's own probability of each node once its parent is accepted."""
    source: Ints
    depth: Ints
    """[n] from 1 on."""

    @classmethod
    def of(cls, rows: RowView, slot: int) -> Proposal:
        """The draft that stands in a row."""
        own, begin, count = rows.rows, int(rows.rows.committed_len[slot]), int(rows.rows.draft_len[slot])
        parents = own.draft_parents.numpy()[slot, :count].copy()
        said, depth = np.empty(count, np.float64), np.empty(count, np.int64)
        _look(parents, own.draft_confidence.numpy()[slot, :count].astype(np.float64), said, depth)
        tokens = own.tokens.numpy()[slot, begin : begin + count].copy()
        source = own.draft_source.numpy()[slot, :count].astype(np.int64)
        return cls(tokens, parents, said, source, depth)

    @classmethod
    def of_tree(cls, tree: Tree) -> Proposal:
        """A source's tree."""
        said, depth = np.empty(len(tree), np.float64), np.empty(len(tree), np.int64)
        _look_back(tree.parents, tree.reach, said, depth)
        return cls(tree.tokens, tree.parents, said, tree.source.astype(np.int64), depth)

    def along(self, chances: Floats) -> Floats:
        """[n]: the product of `chances` [n] from the root to each node."""
        reach = chances.copy()
        _multiply(self.parents, reach)
        return reach


@compiled
def _look(parents: Ints, ratios: Floats, said: Floats, depth: Ints) -> None:
    """Writes each node's own probability and its depth; the running product of `ratios` is the chance of its path."""
    reach, product = np.empty(len(parents)), 1.0
    for node in range(len(parents)):
        product *= ratios[node]
        above = 1.0 if parents[node] < 0 else reach[parents[node]]
        reach[node], said[node] = product, product / max(above, 1e-12)
        depth[node] = 1 if parents[node] < 0 else depth[parents[node]] + 1


@compiled
def _look_back(parents: Ints, reach: NDArray[np.float32], said: Floats, depth: Ints) -> None:
    """Writes each node's own probability and its depth; `reach` [n] is the chance of its path."""
    for node in range(len(parents)):
        above = 1.0 if parents[node] < 0 else reach[parents[node]]
        said[node] = reach[node] / max(above, 1e-12)
        depth[node] = 1 if parents[node] < 0 else depth[parents[node]] + 1


@compiled
def _multiply(parents: Ints, reach: Floats) -> None:
    """Multiplies each entry by its parent's."""
    for node in range(len(parents)):
        if parents[node] >= 0:
            reach[node] *= reach[parents[node]]


def rehearse() -> None:
    """Runs the loops once, so that they are compiled before anything is timed: a pacer takes their time for its own."""
    one, none = np.zeros(1, np.int64), np.full(1, -1, np.int64)
    said, depth = np.empty(1, np.float64), np.empty(1, np.int64)
    _look(none, np.ones(1, np.float64), said, depth)
    proposal, trust = Proposal(one, none, said, one, depth), Trust()
    proposal.along(trust.chances(proposal))
    trust.learn(proposal, [0])
    _look_back(none, np.ones(1, np.float32), said, depth)


class Trust:
    """How often the nodes of one request are right, over how often their sources say so: by source, depth, sureness.

    Both are exponential averages; where little was seen of nodes so sure, those of the source and depth count instead.
    What was proposed is judged by the text that was committed, whether or not it was
    verified, so a node that was too dear does not have to be tried to be known.
    """

    def __init__(self) -> None:
        shape = (SOURCES, DEPTHS, len(SURENESS) + 1)
        self._right, self._said = np.zeros(shape), np.zeros(shape)

    def chances(self, proposal: Proposal) -> Floats:
        """[n]: P(a node is accepted, given that its parent is)."""
        found = np.empty(len(proposal.said))
        _trusted(proposal.source, proposal.depth, proposal.said, self._right, self._said, found)
        return found

    def ratios(self, source: int) -> Floats:
        """[DEPTHS, len(SURENESS) + 1]: what `chances` multiplies the word of a source by."""
        right, said = self._right[source], self._said[source]
        together = (right.sum(1, keepdims=True) + PRIOR) / (said.sum(1, keepdims=True) + PRIOR)
        return np.asarray((right + PRIOR * together) / (said + PRIOR))

    def learn(self, proposal: Proposal, committed: list[int]) -> None:
        """Judges the children of the last committed token and of every node that the text ran through."""
        facts = (proposal.tokens, proposal.parents, proposal.source, proposal.depth, proposal.said)
        _judge(*facts, np.array(committed, np.int64), self._right, self._said)


@compiled
def _cell(source: int, depth: int, said: float) -> tuple[int, int, int]:
    """Where a node counts."""
    sure = 0
    while sure < len(SURENESS) and SURENESS[sure] < said:
        sure += 1
    return min(source, SOURCES - 1), min(depth, DEPTHS) - 1, sure


@compiled
def _trusted(sources: Ints, depths: Ints, said: Floats, right: Floats, told: Floats, found: Floats) -> None:
    """Writes what `said` [n] is worth, by the averages `right` and `told` of each cell."""
    for node in range(len(said)):
        source, depth, sure = _cell(sources[node], depths[node], said[node])
        together = (right[source, depth].sum() + PRIOR) / (told[source, depth].sum() + PRIOR)
        ratio = (right[source, depth, sure] + PRIOR * together) / (told[source, depth, sure] + PRIOR)
        found[node] = min(max(said[node], LEAST) * ratio, SUREST)


@compiled
def _judge(
    tokens: Ints, parents: Ints, sources: Ints, depths: Ints, said: Floats, committed: Ints, right: Floats, told: Floats
) -> None:
    """Adds to the averages what became of the nodes that the committed text passed by or ran through."""
    at = -1
    for token in committed:
        faded, after = np.zeros(right.shape, np.bool_), -2
        for node in range(len(parents)):
            if parents[node] != at:
                continue
            cell = _cell(sources[node], depths[node], said[node])
            if not faded[cell]:
                faded[cell] = True
                right[cell] *= DECAY
                told[cell] *= DECAY
            told[cell] += said[node]
            if tokens[node] == token:
                right[cell] += 1
                after = node
        if after < 0:
            return
        at = after

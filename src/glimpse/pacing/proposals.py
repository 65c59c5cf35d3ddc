"""What a drafter proposed for one row, and how far its word can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.compiled import compiled
from glimpse.drafting.tree import Tree

SOURCES, DEPTHS = 16, 4
"""Cells of the calibration; a greater source or depth counts with the last one."""
SURENESS = (0.15, 0.4, 0.7)
"""Bounds of the probabilities that are looked at apart: who is often right may be wrong whenever it is sure."""
CELLS = (2, SOURCES, DEPTHS, len(SURENESS) + 1)
"""Of `Trust.seen`."""
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


@dataclass(slots=True)  # frozen ones take three times as long to make, and a batch makes some every step
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
        return Proposals.of(rows.rows_of(slot)).nodes

    @classmethod
    def of_tree(cls, tree: Tree) -> Proposal:
        """A source's tree."""
        said, depth = np.empty(len(tree), np.float64), np.empty(len(tree), np.int64)
        _look_back(tree.parents, tree.reach, said, depth)
        return cls(tree.tokens, tree.parents, said, tree.source.astype(np.int64), depth)

    @property
    def facts(self) -> tuple[Ints, Ints, Ints, Ints, Floats]:
        """All of it, as `judge` takes it."""
        return self.tokens, self.parents, self.source, self.depth, self.said

    def children(self, kept: Ints) -> dict[tuple[int, int], int]:
        """(parent, token) -> node, of the nodes `kept`: how a text runs through them."""
        pairs = zip(self.parents[kept].tolist(), self.tokens[kept].tolist(), strict=True)
        return dict(zip(pairs, kept.tolist(), strict=True))

    def along(self, chances: Floats) -> Floats:
        """[n]: the product of `chances` [n] from the root to each node."""
        return Proposals.alone(self).along(chances)


@dataclass(slots=True)
class Proposals:
    """The drafts of R rows, one after the other: what a batch pays for a look at them is one call."""

    nodes: Proposal
    """All rows' nodes; a parent is a place among its row's."""
    ends: Ints
    """[R]: where each row's nodes end."""

    @classmethod
    def of(cls, rows: RowView) -> Proposals:
        """The drafts that stand in these rows."""
        own, slots = rows.rows.arrays, rows.index
        found = cls.room_for(rows)
        nodes = found.nodes
        look(
            slots, own.committed, own.counts, own.tokens, own.parents, own.confidence, own.source, found.ends,
            nodes.tokens, nodes.parents, nodes.said, nodes.source, nodes.depth,
        )  # fmt: skip
        return found

    @classmethod
    def room_for(cls, rows: RowView) -> Proposals:
        """What `look` fills for the drafts that stand in these rows."""
        count = sum(rows.numbers(rows.rows.arrays.counts))
        nodes = Proposal(
            np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count), np.empty(count, np.int64),
            np.empty(count, np.int64),
        )  # fmt: skip
        return cls(nodes, np.empty(len(rows), np.int64))

    @classmethod
    def alone(cls, proposal: Proposal) -> Proposals:
        """One row's."""
        return cls(proposal, np.array([len(proposal.parents)]))

    def along(self, chances: Floats) -> Floats:
        """[nodes]: the product of `chances` [nodes] from each row's root to the node."""
        reach = chances.copy()
        multiply(self.nodes.parents, self.ends, reach)
        return reach

    def split(self, values: Floats) -> list[Floats]:
        """Values of all nodes [nodes], row by row."""
        return [values[begin:end] for begin, end in pairwise([0, *self.ends.tolist()])]

    def each(self) -> list[Proposal]:
        """Row by row."""
        return [self._part(begin, end) for begin, end in pairwise([0, *self.ends.tolist()])]

    def _part(self, begin: int, end: int) -> Proposal:
        own, part = self.nodes, slice(begin, end)
        return Proposal(own.tokens[part], own.parents[part], own.said[part], own.source[part], own.depth[part])


@compiled
def _look_back(parents: Ints, reach: NDArray[np.float32], said: Floats, depth: Ints) -> None:
    """Writes each node's own probability and its depth; `reach` [n] is the chance of its path."""
    for node in range(len(parents)):
        above = 1.0 if parents[node] < 0 else reach[parents[node]]
        said[node] = reach[node] / max(above, 1e-12)
        depth[node] = 1 if parents[node] < 0 else depth[parents[node]] + 1


@compiled
def look(
    slots: Ints, lengths: Ints, counts: Ints, texts: Ints, above: Ints, ratios: NDArray[np.float32],
    sources: NDArray[np.uint8], ends: Ints, tokens: Ints, parents: Ints, said: Floats, source: Ints, depth: Ints,
) -> None:  # fmt: skip
    """Copies the drafts that stand behind the texts of the rows in `slots` [R], with each node's own probability and
    its depth, and where each row's nodes end.

    `lengths`, `counts` and what follows of `Rows` are by slot; the running product of `ratios` is the chance of a
    node's path.
    """
    begin = 0
    for row in range(len(slots)):
        slot, product = slots[row], 1.0
        count, length = counts[slot], lengths[slot]
        reach = np.empty(count)
        for node in range(count):
            at, parent = begin + node, above[slot, node]
            product *= ratios[slot, node]
            before = 1.0 if parent < 0 else reach[parent]
            reach[node] = product
            tokens[at], parents[at] = texts[slot, length + node], parent
            said[at], source[at] = product / max(before, 1e-12), sources[slot, node]
            depth[at] = 1 if parent < 0 else depth[begin + parent] + 1
        begin += count
        ends[row] = begin


@compiled
def multiply(parents: Ints, ends: Ints, reach: Floats) -> None:
    """Multiplies each entry by its parent's, a place among its row's."""
    begin = 0
    for end in ends:
        for node in range(begin, end):
            if parents[node] >= 0:
                reach[node] *= reach[begin + parents[node]]
        begin = end


def rehearse() -> None:
    """Runs the loops once."""
    rows, one = Rows(1, 2, 1), np.zeros(1, np.int64)
    rows.committed_len[0] = rows.draft_len[0] = 1
    found, trust = Proposals.of(RowView(rows, (0,))), Trust()
    found.along(believed([trust], found))
    trust.learn(Proposal(one, one - 1, np.ones(1), one, one + 1), [0])
    _look_back(one - 1, np.ones(1, np.float32), np.ones(1), one.copy())


class Trust:
    """How often the nodes of one request are right, over how often their sources say so: by source, depth, sureness.

    Both are exponential averages; where little was seen of nodes so sure, those of the source and depth count instead.
    What was proposed is judged by the text that was committed, whether or not it was
    verified, so a node that was too dear does not have to be tried to be known.
    """

    def __init__(self) -> None:
        self.seen = np.zeros(CELLS)
        """[2, ...]: nodes of each cell that were right, and how many were to be."""
        self.place: int = self.seen.ctypes.data
        """Where that lies, for loops over many rows; it stays there."""
        self._right, self._said = self.seen

    def chances(self, proposal: Proposal) -> Floats:
        """[n]: P(a node is accepted, given that its parent is)."""
        return believed([self], Proposals.alone(proposal))

    def ratios(self, source: int) -> Floats:
        """[DEPTHS, len(SURENESS) + 1]: what `chances` multiplies the word of a source by."""
        right, said = self._right[source], self._said[source]
        together = (right.sum(1, keepdims=True) + PRIOR) / (said.sum(1, keepdims=True) + PRIOR)
        return np.asarray((right + PRIOR * together) / (said + PRIOR))

    def learn(self, proposal: Proposal, committed: list[int]) -> None:
        """Judges the children of the last committed token and of every node that the text ran through."""
        self.learn_part(proposal, 0, len(proposal.tokens), committed)

    def learn_part(self, nodes: Proposal, begin: int, end: int, committed: list[int]) -> None:
        """As `learn`, of the proposal that lies from `begin` to `end` among several."""
        judge(*nodes.facts, begin, end, np.array(committed, np.int64), self._right, self._said)


def believed(trusts: Sequence[Trust], proposals: Proposals) -> Floats:
    """[nodes]: P(a node is accepted, given that its parent is), by what is known of each row."""
    nodes, found = proposals.nodes, np.empty(len(proposals.nodes.said))
    trusted(nodes.source, nodes.depth, nodes.said, proposals.ends, np.array([trust.seen for trust in trusts]), found)
    return found


@compiled
def _cell(source: int, depth: int, said: float) -> tuple[int, int, int]:
    """Where a node counts."""
    sure = 0
    while sure < len(SURENESS) and SURENESS[sure] < said:
        sure += 1
    return min(source, SOURCES - 1), min(depth, DEPTHS) - 1, sure


@compiled
def trusted(sources: Ints, depths: Ints, said: Floats, ends: Ints, seen: Floats, found: Floats) -> None:
    """Writes what `said` [nodes] is worth, by what was `seen` [R, 2, ...] of each row (`Trust`)."""
    begin = 0
    for row in range(len(ends)):
        trusted_part(sources, depths, said, begin, ends[row], seen[row], found)
        begin = ends[row]


@compiled
def trusted_part(sources: Ints, depths: Ints, said: Floats, begin: int, end: int, seen: Floats, found: Floats) -> None:
    """As `trusted`, of one row's nodes, of which `seen` [2, ...]."""
    right, told = seen[0], seen[1]
    for node in range(begin, end):
        source, depth, sure = _cell(sources[node], depths[node], said[node])
        together = (right[source, depth].sum() + PRIOR) / (told[source, depth].sum() + PRIOR)
        ratio = (right[source, depth, sure] + PRIOR * together) / (told[source, depth, sure] + PRIOR)
        found[node] = min(max(said[node], LEAST) * ratio, SUREST)


@compiled
def judge(
    tokens: Ints, parents: Ints, sources: Ints, depths: Ints, said: Floats, begin: int, end: int, committed: Ints,
    right: Floats, told: Floats,
) -> None:  # fmt: skip
    """Adds to the averages what became of the nodes, from `begin` to `end`, that the committed text passed by or ran
    through."""
    at = -1
    for token in committed:
        faded, after = np.zeros(right.shape, np.bool_), -2
        for node in range(begin, end):
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
                after = node - begin
        if after < 0:
            return
        at = after

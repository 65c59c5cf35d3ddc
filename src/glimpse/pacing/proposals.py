"""What a drafter proposed for one row, and how far its word can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import RowView

SOURCES, DEPTHS = 16, 4
"""Cells of the calibration; a greater source or depth counts with the last one."""
SURENESS = np.array((0.15, 0.4, 0.7))
"""Bounds of the probabilities that are looked at apart: who is often right may be wrong whenever it is sure."""
DECAY = 0.95
"""Weight of the past, per round in which a cell was judged."""
PRIOR = 2.0
"""Nodes, right as often as their source says, that every cell begins with and never forgets."""
SUREST = 0.98
"""No node is surer than this, so that a child is always worth less than its parent."""

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
        parents = own.draft_parents[slot, :count].numpy().astype(np.int64)
        reach = np.cumprod(own.draft_confidence[slot, :count].numpy().astype(np.float64))
        above = np.where(parents < 0, 1.0, reach[np.maximum(parents, 0)])
        depth = np.ones(count, np.int64)
        for node in np.flatnonzero(parents >= 0).tolist():
            depth[node] = depth[parents[node]] + 1
        tokens = own.tokens[slot, begin : begin + count].numpy().astype(np.int64)
        source = own.draft_source[slot, :count].numpy().astype(np.int64)
        return cls(tokens, parents, reach / np.maximum(above, 1e-12), source, depth)

    def along(self, chances: Floats) -> Floats:
        """[n]: the product of `chances` [n] from the root to each node."""
        reach = chances.copy()
        for node in np.flatnonzero(self.parents >= 0).tolist():
            reach[node] *= reach[self.parents[node]]
        return reach


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
        together = (self._right.sum(2) + PRIOR) / (self._said.sum(2) + PRIOR)
        ratio = (self._right + PRIOR * together[:, :, None]) / (self._said + PRIOR)
        return np.asarray(np.minimum(proposal.said * ratio[_cells(proposal)], SUREST))

    def learn(self, proposal: Proposal, committed: list[int]) -> None:
        """Judges the children of the last committed token and of every node that the text ran through."""
        node = -1
        for token in committed:
            children = np.flatnonzero(proposal.parents == node)
            if len(children) == 0:
                return
            right = proposal.tokens[children] == token
            self._count(_cells(proposal, children), proposal.said[children], right)
            if not right.any():
                return
            node = int(children[right.argmax()])

    def _count(self, cells: tuple[Ints, Ints, Ints], said: Floats, right: NDArray[np.bool_]) -> None:
        seen = np.zeros(self._said.shape, bool)
        seen[cells] = True
        self._said[seen] *= DECAY
        self._right[seen] *= DECAY
        np.add.at(self._said, cells, said)
        np.add.at(self._right, cells, right)


class Yield:
    """How many of the nodes chosen as the best are accepted, over how many were expected.

    The best of many estimates are the ones most overestimated, which judging all of them does not show. Without drafts
    it goes back to 1, so that they are tried again.
    """

    def __init__(self) -> None:
        self._accepted = self._expected = 0.0

    @property
    def ratio(self) -> float:
        """What an expected node is worth."""
        return (self._accepted + PRIOR) / (self._expected + PRIOR)

    def learn(self, expected: float, accepted: int) -> None:
        """Counts one round."""
        self._accepted = DECAY * self._accepted + accepted
        self._expected = DECAY * self._expected + expected


def _cells(proposal: Proposal, nodes: Ints | slice = slice(None)) -> tuple[Ints, Ints, Ints]:
    source, depth = np.minimum(proposal.source[nodes], SOURCES - 1), np.minimum(proposal.depth[nodes], DEPTHS) - 1
    return source, depth, np.searchsorted(SURENESS, proposal.said[nodes])

"""Launching verifications with mask groups as graphs: for the fewest rows, tokens and groups that one is kept for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.block_work import BlockWork
from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import FREE, Shape, ladder
from glimpse.engine.device.graphs import Graphs, Ran, Step
from glimpse.engine.device.kept import Kept

WORKS = 32
"""Shapes of steps kept, with their buffers and graphs."""


@dataclass(frozen=True, slots=True)
class BlockMove:
    """A verification of every row's block, with masks riding along."""

    drafted: int
    """The longest draft."""
    riding: tuple[tuple[int, ...], ...]
    """For each row behind how many accepted tokens a group is wanted, ascending; those past `groups` do not ride."""
    groups: int
    """Groups that each row needs places for: behind its first so many tokens."""

    def made(self, row: int, accepted: int) -> bool:
        """Whether a row of which so many drafts were accepted has its next block."""
        return accepted in self.riding[row] and accepted < self.groups


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What a step is run as."""

    queries: int
    """Query tokens of each row."""
    groups: int
    """Groups of masks of each row."""
    masks: int
    """Mask tokens of each row, in all its groups."""


class BlockLauncher:
    """Runs steps with mask groups on the first rows."""

    def __init__(self, core: Core, blocks: BlockState) -> None:
        self._core, self._blocks = core, blocks
        self._longest = min(blocks.head.size, core.rows.most)
        self._graphs: Graphs | None = None
        self._works: Kept[Shape, BlockWork] = Kept(WORKS, lambda shape: BlockWork(core, blocks, *shape[1:]), self._drop)

    def run(self, move: BlockMove, rows: int, queries: int, graphs: Graphs) -> tuple[Ran, BlockShape]:
        """Verifies what is drafted in the first `rows` rows, and sends the blocks that were made where it is told.

        `rows` and `queries`: what a graph is made for, at least those of the move.
        """
        groups = 1 if move.groups == 1 else min(queries, self._blocks.most)
        wanted = self._shape(rows, queries, groups)
        shape = graphs.covering.choose("block", wanted, self._ample(rows, queries, groups))
        ran = graphs.run(*self._step(shape, graphs))
        if self._blocks.told:
            self._blocks.send(len(move.riding))
        _, size, queries, groups = shape
        return replace(ran, covered=size > rows), BlockShape(queries, groups, groups * self._blocks.head.size)

    def ready(self, graphs: Graphs, most: int) -> Iterator[Step]:
        """The steps of at most so many tokens that cover all others, the largest first."""
        size, blocks = self._core.rows.size, self._blocks
        queries = (blocks.ahead or self._longest) + 1
        every = min(queries, blocks.most)
        wanted = {(queries, every)}
        if blocks.cuts or not blocks.ahead:
            wanted.add((queries, 1))
        if blocks.cuts:
            wanted.add((1, 1))  # steps that only make blocks
        for rows in sorted({ladder(count, size) for count in range(1, size + 1)}, reverse=True):
            for own, groups in sorted(wanted):
                shape = self._shape(rows, own, groups)
                if shape[0] <= most:
                    yield self._step(shape, graphs)

    def _step(self, shape: Shape, graphs: Graphs) -> Step:
        self._graphs = graphs
        return ("block", shape), self._works.get(shape).verify

    def _shape(self, rows: int, queries: int, groups: int) -> Shape:
        """Tokens with masks, rows, and each row's queries and groups. A graph for each number of groups would be many:
        one, or all."""
        return rows * (queries + groups * self._blocks.head.size), rows, queries, groups

    def _ample(self, rows: int, queries: int, groups: int) -> Shape:
        """What covers many; where drafts have a length foretold, only the rows are others."""
        widest = queries if self._blocks.ahead else max(queries, self._longest + 1)
        groups = 1 if groups == 1 else min(widest, self._blocks.most)
        more = self._shape(ladder(rows, self._core.rows.size), widest, groups)
        return more if more[0] <= FREE else self._shape(rows, widest, groups)

    def _drop(self, shape: Shape) -> None:
        if self._graphs is not None:
            self._graphs.drop("block", lambda other: other == shape)

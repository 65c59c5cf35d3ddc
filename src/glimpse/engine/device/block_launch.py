"""Launching verifications with mask groups as graphs: for the fewest rows, tokens and groups that one is kept for."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.block_work import BlockWork
from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import Covering, Shape
from glimpse.engine.device.graphs import Graphs, Ran
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
        self._blocks = blocks
        self._longest = min(blocks.head.size, core.rows.most)
        self._graphs: Graphs | None = None
        self._shapes = Covering()
        self._works: Kept[Shape, BlockWork] = Kept(WORKS, lambda key: BlockWork(core, blocks, *key), self._drop)

    def run(self, move: BlockMove, rows: int, queries: int, graphs: Graphs) -> tuple[Ran, BlockShape]:
        """Verifies what is drafted in the first `rows` rows, and sends the blocks that were made where it is told.

        `rows` and `queries`: what a graph is made for, at least those of the move.
        """
        self._graphs = graphs
        key = self._key(move, rows, queries)
        ran = graphs.run(("block", *key), self._works.get(key).verify)
        if self._blocks.told:
            self._blocks.send(len(move.riding))
        _, queries, groups = key
        return ran, BlockShape(queries, groups, groups * self._blocks.head.size)

    def _key(self, move: BlockMove, rows: int, queries: int) -> Shape:
        """Rows, and each row's queries and groups. A graph for each number of groups would be many: one, or all."""
        groups = 1 if move.groups == 1 else min(queries, self._blocks.most)
        wanted = rows, queries, groups
        if self._blocks.ahead:
            return wanted  # there is no other
        widest = max(queries, self._longest + 1)
        return self._shapes.choose(wanted, (rows, widest, min(widest, self._blocks.most)))

    def _drop(self, key: Shape) -> None:
        self._shapes.drop(key)
        if self._graphs is not None:
            self._graphs.drop(("block", *key))

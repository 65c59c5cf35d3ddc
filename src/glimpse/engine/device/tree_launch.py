"""Launching verifications of draft trees as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import FREE, Shape, ladder, node_bucket
from glimpse.engine.device.graphs import Graphs, Ran, Step
from glimpse.engine.device.kept import Kept
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.device.tree_work import TreeWork

WIDTHS = (1, 9, 17, 33, 64)
"""Query tokens of the row with most of them that attention is folded for; padding there costs no tokens."""
AMPLE = (1, 9, 64)
"""Those of graphs that cover others."""
SHAPES = 256
"""Sizes of steps whose shapes are remembered."""
WORKS = 48
"""Shapes of steps kept, with their buffers and graphs."""


@dataclass(slots=True, eq=False)
class TreeMove:
    """A verification of every row's tree."""

    drafted: tuple[int, ...]
    """The nodes of each row."""
    depths: tuple[int, ...]
    """How many tokens the deepest path of each row has."""
    fed: NDArray[np.int64]
    """[tokens]: what the rows feed, row after row: the last committed token, then the nodes."""

    @property
    def tokens(self) -> int:
        """Query tokens, padding apart."""
        return sum(self.drafted) + len(self.drafted)

    def loaded(self, tokens: int) -> int:
        """Query tokens that a step run with `tokens` is priced by: with padding, unless nothing is drafted."""
        return tokens if any(self.drafted) else len(self.drafted)


class TreeLauncher:
    """Runs tree steps of the first rows."""

    def __init__(self, core: Core, trees: TreeState) -> None:
        self._core, self._trees = core, trees
        self._graphs: Graphs | None = None
        self._shapes = lru_cache(SHAPES)(self._shapes_of)
        self._works: Kept[Shape, TreeWork] = Kept(WORKS, self._made, self._drop)

    def run(self, move: TreeMove, graphs: Graphs) -> tuple[Ran, int]:
        """Verifies the trees that stand in the `TreeState`, and sends what they became; with how many tokens it ran."""
        shape = graphs.covering.choose("tree", *self._shapes(len(move.drafted), move.tokens, max(move.drafted)))
        ran = graphs.run(*self._step(shape, graphs))
        self._trees.send(move.tokens)
        return ran, shape[0]

    def runs_with(self, rows: int, tokens: int, graphs: Graphs) -> int:
        """With how many query tokens a step of so many would run now, where the largest tree is twice the mean."""
        others = tokens - rows
        widest = others if rows == 1 else min(self._core.rows.most, -(-2 * others // rows))
        wanted, ample = self._shapes(rows, tokens, max(widest, 0))
        return (graphs.covering.find("tree", wanted) or ample)[0]

    def ready(self, graphs: Graphs, most: int) -> Iterator[Step]:
        """The steps of at most so many tokens that cover all others, the largest first."""
        size, widest = self._core.rows.size, self._core.rows.most + 1
        found = set[Shape]()
        for rows in {ladder(count, size) for count in range(1, size + 1)}:
            for queries in {min(width, widest) for width in AMPLE}:
                full = rows * queries
                found |= {(ladder(tokens, full), rows, queries) for tokens in (rows + queries - 1, 4 * rows, full)}
        for shape in sorted(found, reverse=True):
            if shape[0] <= most:
                yield self._step(shape, graphs)

    def _step(self, shape: Shape, graphs: Graphs) -> Step:
        self._graphs = graphs
        return ("tree", shape), self._works.get(shape).verify

    def _shapes_of(self, count: int, tokens: int, widest: int) -> tuple[Shape, Shape]:
        """Tokens, rows and the queries of one row: of the step that so many rows need, with so many tokens and at most
        `widest` nodes each, and of one that covers many."""
        size, most = self._core.rows.size, self._core.rows.most + 1
        rows, queries = min(1 << (count - 1).bit_length(), size), _width(WIDTHS, widest, most)
        wanted = min(node_bucket(tokens), rows * most), rows, queries
        rows, queries = ladder(count, size), _width(AMPLE, widest, most)
        return wanted, (ladder(tokens, rows * queries), rows, queries)

    def _made(self, shape: Shape) -> TreeWork:
        tokens, rows, queries = shape
        return TreeWork(self._core, self._trees, rows, tokens, queries)

    def _drop(self, shape: Shape) -> None:
        if self._graphs is not None:
            self._graphs.drop("tree", lambda other: other == shape)


class TreeSizes:
    """With how many query tokens trees are verified (`pacing.padding.Sizes`).

    Where a step waits for the weights (`FREE`), it is run as whatever graph covers it, for a graph of its own would be
    little faster, and what that graph has room for costs nothing more. Beyond that a step is said to run in its own
    size, as it will once that has been asked for: what is thought dear is never asked for.
    """

    def __init__(self, launcher: TreeLauncher, graphs: Graphs) -> None:
        self._launcher, self._graphs = launcher, graphs
        self._found: tuple[int, dict[tuple[int, int], int]] = -1, {}

    @property
    def version(self) -> int:
        """Another one whenever there is a shape more, or one less."""
        return self._graphs.version

    def run_with(self, rows: int, tokens: int) -> int:
        """With how many a step of so many runs, of rows whose trees are about the same."""
        bucket = max(node_bucket(tokens), rows)
        if bucket > FREE:
            return bucket
        if self._found[0] != self.version:
            self._found = self.version, {}
        key, found = (rows, bucket), self._found[1]
        if key not in found:
            run = self._launcher.runs_with(rows, bucket, self._graphs)
            found[key] = run if run <= FREE else bucket
        return found[key]


def _width(widths: Sequence[int], nodes: int, most: int) -> int:
    return min(next(width for width in widths if width > nodes), most)

"""Launching verifications of draft trees as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import Covering, node_bucket
from glimpse.engine.device.graphs import Graphs, Ran
from glimpse.engine.device.kept import Kept
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.device.tree_work import TreeWork

WIDTHS = (1, 9, 17, 33, 64)
"""Query tokens of the row with most of them that attention is folded for; padding there costs no tokens."""
WORKS = 32
"""Shapes of steps kept, with their buffers and graphs."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeMove:
    """A verification of every row's tree."""

    drafted: tuple[int, ...]
    """The nodes of each row."""
    depths: tuple[int, ...]
    """How many tokens the deepest path of each row has."""
    fed: Tensor
    """[tokens] int64, on the host: what the rows feed, row after row: the last committed token, then the nodes."""

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
        self._shapes = Covering()
        self._works: Kept[tuple[int, int, int], TreeWork] = Kept(
            WORKS, lambda key: TreeWork(core, trees, *key), self._drop
        )

    def run(self, move: TreeMove, graphs: Graphs) -> tuple[Ran, int]:
        """Verifies the trees that stand in the `TreeState`, and sends what they became; with how many tokens it ran."""
        self._graphs = graphs
        key = self._key(move.drafted)
        ran = graphs.run(("tree", *key), self._works.get(key).verify)
        self._trees.send(move.tokens)
        return ran, key[1]

    def _key(self, drafted: Sequence[int]) -> tuple[int, int, int]:
        """Rows, tokens and the queries of one row, of the step that such drafts are verified in."""
        rows, most = self._core.rows, self._core.rows.most + 1
        size = min(1 << (len(drafted) - 1).bit_length(), rows.size)
        queries = min(next(width for width in WIDTHS if width > max(drafted)), most)
        tokens = node_bucket(sum(drafted) + len(drafted))
        ample = 1 << (tokens - 1).bit_length()
        limit = size * most
        return self._shapes.choose((size, min(tokens, limit), queries), (size, min(ample, limit), queries))

    def _drop(self, key: tuple[int, int, int]) -> None:
        self._shapes.drop(key)
        if self._graphs is not None:
            self._graphs.drop(("tree", *key))

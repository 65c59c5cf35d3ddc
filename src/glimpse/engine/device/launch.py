"""Launching steps as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch

from glimpse.attention.triton.mixed import Want
from glimpse.engine.device.block_launch import BlockLauncher, BlockMove, BlockShape
from glimpse.engine.device.core import Core
from glimpse.engine.device.graphs import Graphs, Ran
from glimpse.engine.device.kept import Kept
from glimpse.engine.device.mail import upload
from glimpse.engine.device.mixed import Mixed
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.tree_launch import TreeLauncher, TreeMove
from glimpse.engine.device.work import Work
from glimpse.errors import GlimpseError

STEPS = 16
"""Draft steps in one graph, at most."""
BURSTS = (16, 12, 8, 6, 4, 2, 1)
"""Draft steps that graphs are made for where drafts have any length; others are made up of them."""
WIDTHS = (1, 2, 3, 5, 7, 9)
"""Query tokens a row that graphs are made for where drafts have any length; beyond, every fourth number."""
WORKS = 48
"""Shapes of steps (rows, query tokens) kept, with their buffers and graphs; of mixed ones as many again."""


class Launcher:
    """Runs the steps of the first `rows` rows."""

    def __init__(self, core: Core, *, exact: bool) -> None:
        """`exact`: drafts have few lengths, so that each is worth a graph of its own."""
        self._core, self._capacity, self._exact = core, core.rows.size, exact
        self.graphs = Graphs(core.decoder.device, core.quiet)
        self._trees = TreeLauncher(core, core.trees) if core.trees else None
        self._blocks = BlockLauncher(core, core.blocks) if core.blocks else None
        self._works: Kept[tuple[int, int], Work] = Kept(WORKS, lambda key: Work(core, *key), self._drop)
        self._mixed: Kept[tuple[str, int, int, int], Mixed] = Kept(WORKS, lambda key: Mixed(core, *key[1:]), self._drop)

    def draft(self, rows: int, steps: int) -> Ran:
        """`steps` more draft tokens for each row."""
        ran = Ran(graph=True)
        while steps:
            now = min(steps, STEPS) if self._exact else next(burst for burst in BURSTS if burst <= steps)
            work = self._work(rows, 1)
            ran &= self._run(rows, 1, ("draft", now), partial(_repeat, work.draft, now))
            steps -= now
        return ran

    def verify(self, rows: int, drafted: int, learn: Learn) -> Ran:
        """Verifies drafts of at most `drafted` tokens, each row's own, and commits."""
        queries = self.queries(drafted)
        work = self._work(rows, queries)
        return self._run(rows, queries, ("verify", learn), partial(work.verify, learn))

    def mixed(self, wants: Sequence[Want], pending: Sequence[int]) -> Ran:
        """Every row does what it wants, with a draft of at most `pending` tokens each."""
        core = self._core
        widest = max(want.tokens(have) for want, have in zip(wants, pending, strict=True))
        core.want[: len(wants)] = upload(torch.tensor(wants, dtype=torch.int32), core.want.device)
        key = ("mixed", self._bucket(len(wants)), self.tokens(wants, pending), self._width(widest))
        asked = {"drafts": Want.DRAFT in wants, "learns": max(wants) >= Want.ADD}
        return self.graphs.run((*key, *asked.values()), partial(self._mixed.get(key).run, **asked))

    def trees(self, move: TreeMove) -> tuple[Ran, int]:
        """Verifies the rows' trees; with how many query tokens it ran. Raises GlimpseError where the rows have none."""
        if self._trees is None:
            raise GlimpseError("these rows verify chains only")
        return self._trees.run(move, self.graphs)

    def blocks(self, move: BlockMove) -> tuple[Ran, BlockShape]:
        """Verifies the rows' blocks and makes the next; what it ran as. Raises GlimpseError where rows have none."""
        if self._blocks is None:
            raise GlimpseError("no mask tokens ride on these rows")
        return self._blocks.run(move, self._bucket(len(move.riding)), self.queries(move.drafted), self.graphs)

    def tokens(self, wants: Sequence[Want], pending: Sequence[int]) -> int:
        """The tokens of a mixed step that is launched for such rows."""
        return token_bucket(sum(want.tokens(have) for want, have in zip(wants, pending, strict=True)))

    def queries(self, drafted: int) -> int:
        """Query tokens a row that such drafts are verified with."""
        least = drafted + 1
        if self._exact or least > WIDTHS[-1]:
            wide = least if self._exact else -(-drafted // 4) * 4 + 1
        else:
            wide = next(width for width in WIDTHS if width >= least)
        return min(wide, self._core.rows.most + 1)

    def _width(self, widest: int) -> int:
        """Queries that attention folds: padding there costs no tokens, so that two sizes are enough."""
        most = self._core.rows.most + 1
        return min(WIDTHS[-1], most) if widest <= WIDTHS[-1] else most

    def _bucket(self, rows: int) -> int:
        return min(1 << (rows - 1).bit_length(), self._capacity)

    def _work(self, rows: int, queries: int) -> Work:
        """The step of such rows, with the sampling settings that hold now."""
        work = self._works.get((self._bucket(rows), queries))
        work.renew()
        return work

    def _drop(self, shape: tuple[Hashable, ...]) -> None:
        self.graphs.drop(shape)

    def _run(self, rows: int, queries: int, what: tuple[Hashable, ...], function: Callable[[], None]) -> Ran:
        return self.graphs.run((self._bucket(rows), queries, *what), function)


def token_bucket(tokens: int) -> int:
    """The number of tokens that a mixed step of `tokens` is made for: 1, 2, 4, 8, 16, then four sizes an octave.

    Below 16 a product costs what one token costs; above, at most a fifth is padding.
    """
    grain = 1 << max(0, (tokens - 1).bit_length() - (3 if tokens > 16 else 0))
    return -(-tokens // grain) * grain


def _repeat(function: Callable[[], None], times: int) -> None:
    for _ in range(times):
        function()

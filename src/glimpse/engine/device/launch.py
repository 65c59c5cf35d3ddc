"""Launching steps as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import torch

from glimpse.attention.triton.mixed import Want
from glimpse.engine.device.block_launch import BlockLauncher, BlockMove, BlockShape
from glimpse.engine.device.boundary_work import BoundaryWork
from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import FREE, Shape, ladder
from glimpse.engine.device.graphs import Graphs, Ran, Step
from glimpse.engine.device.kept import Kept
from glimpse.engine.device.mail import upload
from glimpse.engine.device.mixed import Mixed
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.tree_launch import TreeLauncher, TreeMove, TreeSizes
from glimpse.engine.device.trust_work import TrustWork
from glimpse.engine.device.work import Work
from glimpse.errors import GlimpseError

STEPS = 16
"""Draft steps in one graph, at most."""
BURSTS = (16, 12, 8, 6, 4, 2, 1)
"""Draft steps that graphs are made for where drafts have any length; others are made up of them."""
WIDTHS = (1, 2, 3, 5, 7, 9)
"""Query tokens a row that graphs are made for where drafts have any length; beyond, every fourth number."""
AMPLE = (1, 3, 5, 9)
"""Those of graphs that cover others; beyond, the longest draft's."""
READY = 2048
"""Tokens of a step that a graph is made for before it is asked for, at most."""
Kind = tuple[str, int]
"""What all rows do: draft so many tokens, or verify and learn so (`Learn`)."""
WORKS = 48
"""Shapes of steps (rows, query tokens) kept, with their buffers and graphs; of mixed ones as many again."""


class Launcher:
    """Runs the steps of the first `rows` rows."""

    def __init__(self, core: Core, *, exact: bool) -> None:
        """`exact`: drafts have few lengths, so that each is worth a graph of its own."""
        self._core, self._capacity, self._exact = core, core.rows.size, exact
        self.graphs = Graphs(core.decoder.device, core.quiet)
        self._trees = TreeLauncher(core, core.trees) if core.trees else None
        made = Work if core.trust is None else BoundaryWork if core.trust.verifies else TrustWork
        self._works: Kept[Shape, Work | BoundaryWork] = Kept(WORKS, lambda key: made(core, *key), self._drop)
        self._blocks = BlockLauncher(core, core.blocks) if core.blocks else None
        self._mixed: Kept[Shape, Mixed] = Kept(WORKS, self._made_mixed, self._drop_mixed)
        self._kinds: set[Hashable] = set()

    def draft(self, rows: int, steps: int) -> Ran:
        """`steps` more draft tokens for each row."""
        ran = Ran(graph=True)
        while steps:
            now, shape = self._burst(rows, steps)
            ran &= self._run(("draft", now), shape, rows)
            steps -= now
        return ran

    def verify(self, rows: int, drafted: int, learn: Learn) -> tuple[Ran, int]:
        """Verifies drafts of at most `drafted` tokens, each row's own, and commits; with how many queries a row."""
        wanted = self._bucket(rows), self.queries(drafted)
        shape = self.graphs.covering.choose(("verify", learn), _shape(*wanted), self._ample(*wanted))
        return self._run(("verify", learn), shape, rows), shape[2]

    def mixed(self, wants: Sequence[Want], pending: Sequence[int]) -> tuple[Ran, int]:
        """Every row does what it wants, with a draft of at most `pending` tokens each; of how many tokens in all."""
        core = self._core
        widest = max(want.tokens(have) for want, have in zip(wants, pending, strict=True))
        core.want[: len(wants)] = upload(torch.tensor(wants, dtype=torch.int32), core.want.device)
        tokens = self.tokens(wants, pending)
        wanted = tokens, self._bucket(len(wants)), self._width(widest)
        shape = self.graphs.covering.choose("mixed", wanted, self._ample_mixed(len(wants), tokens, wanted[2]))
        return self.graphs.run(*self._mix(shape)), shape[0]

    def trees(self, move: TreeMove) -> tuple[Ran, int]:
        """Verifies the rows' trees; with how many query tokens it ran. Raises GlimpseError where the rows have none."""
        if self._trees is None:
            raise GlimpseError("these rows verify chains only")
        return self._trees.run(move, self.graphs)

    @property
    def tree_sizes(self) -> TreeSizes | None:
        """With how many query tokens trees are verified, where there are any."""
        return TreeSizes(self._trees, self.graphs) if self._trees else None

    def blocks(self, move: BlockMove) -> tuple[Ran, BlockShape]:
        """Verifies the rows' blocks and makes the next; what it ran as. Raises GlimpseError where rows have none."""
        if self._blocks is None:
            raise GlimpseError("no mask tokens ride on these rows")
        return self._blocks.run(move, self._bucket(len(move.riding)), self.queries(move.drafted), self.graphs)

    def ready(self, drafted: int, *, mixes: bool) -> Iterator[Step]:
        """The steps that cover all others, of at most `READY` tokens, those of most rows first.

        `drafted`: the longest draft that is not a tree or a block, 0 for none; `mixes`: rows do different things.
        """
        for rows in sorted({ladder(count, self._capacity) for count in range(1, self._capacity + 1)}, reverse=True):
            alike = [(("verify", Learn.NOTHING), rows, 0), *self._ready_drafts(rows, drafted)]
            steps = [(kind, _shape(rows, self.queries(own))) for kind, rows, own in alike]
            yield from (self._step(kind, shape) for kind, shape in steps if shape[0] <= READY)
            most = rows * (self._core.rows.most + 1)
            shapes = {
                self._ample_mixed(rows, tokens, self._width(width))
                for tokens, width in product((rows, 4 * rows, 16 * rows, most), (1, self._core.rows.most + 1))
                if mixes and tokens <= min(READY, most)
            }
            yield from (self._mix(shape) for shape in sorted(shapes, reverse=True))
        if self._trees:
            yield from self._trees.ready(self.graphs, READY)
        if self._blocks:
            yield from self._blocks.ready(self.graphs, READY)

    def tokens(self, wants: Sequence[Want], pending: Sequence[int]) -> int:
        """The tokens that a mixed step of such rows is made for, unless another covers it."""
        return token_bucket(sum(want.tokens(have) for want, have in zip(wants, pending, strict=True)))

    def queries(self, drafted: int) -> int:
        """Query tokens a row that such drafts are verified with, unless a wider step covers them."""
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

    def _ample(self, rows: int, queries: int) -> Shape:
        """What covers many steps of so many rows and queries: more rows only as long as they cost nothing."""
        wide = (
            queries if self._exact else next((width for width in AMPLE if width >= queries), self._core.rows.most + 1)
        )
        more = _shape(ladder(rows, self._capacity), min(wide, self._core.rows.most + 1))
        return more if more[0] <= FREE else _shape(rows, more[2])

    def _ample_mixed(self, rows: int, tokens: int, width: int) -> Shape:
        rows = ladder(rows, self._capacity)
        return ladder(tokens, rows * (self._core.rows.most + 1)), rows, width

    def _ready_drafts(self, rows: int, drafted: int) -> list[tuple[Kind, int, int]]:
        """Kinds of step, rows and drafts, of the rows' own drafts or of chains from the host."""
        lengths = [drafted] if self._exact else [width - 1 for width in AMPLE if width <= drafted] + [drafted]
        if not drafted:
            return []
        if not self._core.drafts:
            return [(("verify", Learn.NOTHING), rows, length) for length in lengths if length]
        bursts = {1, min(drafted, STEPS) if self._exact else 4}
        return [
            *((("draft", burst), rows, 0) for burst in bursts),
            *((("verify", Learn.ADD), rows, length) for length in lengths if length),
            (("verify", Learn.ANEW), rows, 0),
        ]

    def _burst(self, rows: int, steps: int) -> tuple[int, Shape]:
        """How many draft steps to run at once, and in which shape: as many as are wanted, or as there is a graph of."""
        covering, wanted = self.graphs.covering, _shape(self._bucket(rows), 1)
        whole = min(steps, STEPS) if self._exact else next(burst for burst in BURSTS if burst <= steps)
        bursts = (whole, *(burst for burst in BURSTS if burst < whole))
        found = ((burst, covering.find(("draft", burst), wanted)) for burst in bursts)
        burst, shape = next((pair for pair in found if pair[1]), (1, None))
        if (burst, shape) != (whole, wanted) and covering.due(("draft", whole), wanted, shape):
            return whole, wanted
        return burst, shape or self._ample(*wanted[1:])

    def _run(self, kind: Kind, shape: Shape, rows: int) -> Ran:
        ran = self.graphs.run(*self._step(kind, shape))
        return replace(ran, covered=shape[1] > self._bucket(rows))

    def _step(self, kind: Kind, shape: Shape) -> Step:
        """The graph's key and what it does, with the sampling settings that hold now."""
        what, number = kind
        self._kinds.add(kind)
        work = self._works.get(shape[1:])
        work.renew()
        if what == "verify":
            return (kind, shape), partial(work.verify, Learn(number))
        return (kind, shape), partial(_repeat, work.draft, number)

    def _mix(self, shape: Shape) -> Step:
        # Kinds of rows that a step does not have take hardly any time: one graph is for all.
        return ("mixed", shape), partial(self._mixed.get(shape).run, drafts=True, learns=True)

    def _made_mixed(self, cut: Shape) -> Mixed:
        tokens, rows, queries = cut
        return Mixed(self._core, rows, tokens, queries)

    def _drop(self, work: Shape) -> None:
        for kind in self._kinds:
            self.graphs.drop(kind, lambda shape: shape[1:] == work)

    def _drop_mixed(self, cut: Shape) -> None:
        self.graphs.drop("mixed", lambda shape: shape == cut)


def _shape(rows: int, queries: int) -> Shape:
    """Tokens, rows, queries."""
    return rows * queries, rows, queries


def token_bucket(tokens: int) -> int:
    """The number of tokens that a mixed step of `tokens` is made for: 1, 2, 4, 8, 16, then four sizes an octave.

    Below 16 a product costs what one token costs; above, at most a fifth is padding.
    """
    grain = 1 << max(0, (tokens - 1).bit_length() - (3 if tokens > 16 else 0))
    return -(-tokens // grain) * grain


def _repeat(function: Callable[[], None], times: int) -> None:
    for _ in range(times):
        function()

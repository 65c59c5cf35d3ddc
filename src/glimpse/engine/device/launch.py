"""Launching steps as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial

from glimpse.engine.device.core import Core
from glimpse.engine.device.graphs import Graphs, Ran
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.work import Work

STEPS = 16
"""Draft steps in one graph, at most."""
WIDTHS = (1, 2, 3, 5, 7, 9)
"""Query tokens a row that graphs are made for where drafts have any length; beyond, every fourth number."""
WORKS = 48
"""Shapes of steps (rows, query tokens) kept, with their buffers and graphs."""


class Launcher:
    """Runs the steps of the first `rows` rows."""

    def __init__(self, core: Core, *, exact: bool) -> None:
        """`exact`: drafts have few lengths, so that each is worth a graph of its own."""
        self._core, self._capacity, self._exact = core, core.rows.size, exact
        self.graphs = Graphs(core.decoder.device, core.quiet)
        self._works: OrderedDict[tuple[int, int], tuple[Work, int]] = OrderedDict()

    def draft(self, rows: int, steps: int) -> Ran:
        """`steps` more draft tokens for each row."""
        ran = Ran(graph=True)
        while steps:
            now = min(steps, STEPS)
            work = self._work(rows, 1)
            ran &= self._run(rows, 1, ("draft", now), partial(_repeat, work.draft, now))
            steps -= now
        return ran

    def verify(self, rows: int, drafted: int, learn: Learn) -> Ran:
        """Verifies drafts of at most `drafted` tokens, each row's own, and commits."""
        queries = self.queries(drafted)
        work = self._work(rows, queries)
        return self._run(rows, queries, ("verify", learn), partial(work.verify, learn))

    def queries(self, drafted: int) -> int:
        """Query tokens a row that such drafts are verified with."""
        least = drafted + 1
        if self._exact or least > WIDTHS[-1]:
            wide = least if self._exact else -(-drafted // 4) * 4 + 1
        else:
            wide = next(width for width in WIDTHS if width >= least)
        return min(wide, self._core.rows.most + 1)

    def _bucket(self, rows: int) -> int:
        return min(1 << (rows - 1).bit_length(), self._capacity)

    def _work(self, rows: int, queries: int) -> Work:
        """The step of such rows, with the sampling settings that hold now."""
        key = (self._bucket(rows), queries)
        work, version = self._works.pop(key, (None, -1))
        if work is None:
            self._make_room()
            work = Work(self._core, *key)
        elif version != self._core.version:
            work.choose.refresh()
        self._works[key] = work, self._core.version
        return work

    def _make_room(self) -> None:
        while len(self._works) >= WORKS:
            shape, _ = self._works.popitem(last=False)
            self.graphs.drop(shape)

    def _run(self, rows: int, queries: int, what: tuple[Hashable, ...], function: Callable[[], None]) -> Ran:
        return self.graphs.run((self._bucket(rows), queries, *what), function)


def _repeat(function: Callable[[], None], times: int) -> None:
    for _ in range(times):
        function()

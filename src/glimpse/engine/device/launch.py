"""Launching steps as graphs: for the fewest rows and tokens that a graph is kept for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial

from glimpse.engine.device.graphs import Graphs, Ran
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.work import Core, Work

STEPS = 16
"""Draft steps in one graph, at most."""
EXACT = 9
"""Up to so many query tokens a row a graph is made for each number; beyond, for every fourth."""
WORKS = 48
"""Shapes of steps (rows, query tokens) kept, with their buffers and graphs."""


class Launcher:
    """Runs the steps of the first `rows` rows."""

    def __init__(self, core: Core) -> None:
        self._core, self._capacity = core, core.rows.size
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
        exact = drafted + 1
        return exact if exact <= EXACT else min(-(-drafted // 4) * 4, self._core.rows.most) + 1

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

"""The eager engine where CUDA graphs were to be expected."""

from __future__ import annotations

from collections.abc import Callable

from glimpse.engine.engine import Engine
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.request import Progress, Request


class CountedEngine(Engine):
    """Counts every decoding step of a request with the reason why it does not run as a graph."""

    def __init__(self, parts: Parts, options: EngineOptions, why: Callable[[Request], str]) -> None:
        super().__init__(parts, options)
        self._why = why

    def _run(self) -> list[Progress]:
        before = [(request, request.speculation.draft_steps) for request in self._running.values()]
        progress = super()._run()
        for request, drafts in before:
            self._count(request, request.speculation.draft_steps - drafts)
        for made in progress:
            self._count(made.request, 1)
        return progress

    def _count(self, request: Request, steps: int) -> None:
        if steps:
            request.speculation.eager_steps[self._why(request)] += steps

"""Captured CUDA graphs by key; without a GPU the functions simply run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch


class Graphs:
    """Captures a function the first time it is asked for, and replays it afterwards.

    The functions must read and write the same tensors every time. All graphs share one memory pool, so intermediates of
    one may lie where those of another lay: only tensors made outside may carry results.
    """

    WARM_UP = 2
    """Runs before a capture: kernels are compiled, libraries make their workspaces."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._captured: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._memory: Any = None

    def __len__(self) -> int:
        return len(self._captured)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._captured

    def replay(self, key: Hashable) -> None:
        """Replays what was captured under `key`."""
        self._captured[key].replay()

    def run(self, key: Hashable, function: Callable[[], None], restore: Callable[[], None]) -> None:
        """Replays the graph of `key`, capturing `function` if it is new.

        `restore` puts the state back that warming up has changed.
        """
        if self._device.type != "cuda":
            function()
            return
        if key not in self._captured:
            self._captured[key] = self._capture(function, restore)
        self._captured[key].replay()

    def _capture(self, function: Callable[[], None], restore: Callable[[], None]) -> torch.cuda.CUDAGraph:
        stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UP):
                function()
                restore()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            function()
        self._memory = self._memory or graph.pool()
        restore()
        return graph

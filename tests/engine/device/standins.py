"""Graphs that are only counted, where there is no GPU: capturing runs a step once, replaying runs nothing."""

from __future__ import annotations

import pytest
import torch

from glimpse.engine.device.graphs import Graphs, _Held

CAPTURE, STEP = 0.15, 0.005
"""Seconds that a capture and a step take, by the clock of a `Counted`."""


class _Graph:
    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def replay(self) -> None:
        self._counted.now += STEP

    def reset(self) -> None:
        """Nothing is held."""


class Counted(Graphs):
    """As on a GPU, with a clock of its own."""

    def __init__(self, core, patch: pytest.MonkeyPatch, **more) -> None:
        self.now, self.captures = 0.0, 0
        for name in ("current_stream", "set_stream", "synchronize"):
            patch.setattr(torch.cuda, name, lambda *given: None)
        super().__init__(torch.device("cuda"), core.quiet, clock=lambda: self.now, **more)

    def _warm_up(self, function) -> None:
        self.now += CAPTURE

    def _capture(self, function) -> _Held:
        self.captures += 1
        function()
        return _Held(_Graph(self), 0)

"""Times: by events on a GPU, by the host's clock elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

Action = Callable[[], object]
_AHEAD = 60_000_000
"""Cycles (about 30 ms) that a GPU is kept busy while the host queues what is timed."""


class Clock(Protocol):
    """How a device's time is taken."""

    def each(self, prepare: Action, action: Action, repeats: int) -> list[float]:
        """Seconds of every `action`; `prepare` runs before each of them and does not count."""

    def run(self, action: Action) -> float:
        """Seconds from an idle device to an idle device, the host's work included."""

    def device(self, action: Action) -> float | None:
        """Seconds of the device alone for `action`, which must only enqueue work; None where there is only the host."""


class HostClock:
    """The host is the device."""

    def each(self, prepare: Action, action: Action, repeats: int) -> list[float]:
        """See `Clock.each`."""
        times = []
        for _ in range(repeats):
            prepare()
            times.append(self.run(action))
        return times

    def run(self, action: Action) -> float:
        """See `Clock.run`."""
        begun = time.perf_counter()
        action()
        return time.perf_counter() - begun

    def device(self, action: Action) -> float | None:
        """There is only the host."""
        return None


class CudaClock:
    """Events around what is enqueued."""

    def each(self, prepare: Action, action: Action, repeats: int) -> list[float]:
        """See `Clock.each`."""
        marks = [(_event(), _event()) for _ in range(repeats)]
        for begin, end in marks:
            prepare()
            begin.record()
            action()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in marks]

    def run(self, action: Action) -> float:
        """See `Clock.run`."""
        torch.cuda.synchronize()
        begun = time.perf_counter()
        action()
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    def device(self, action: Action) -> float | None:
        """Behind a kernel that waits, so that the device never waits for the host."""
        begin, end = _event(), _event()
        torch.cuda._sleep(_AHEAD)  # type: ignore[no-untyped-call]
        begin.record()
        action()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def clock_of(device: torch.device) -> Clock:
    """The clock of a device."""
    return CudaClock() if device.type == "cuda" else HostClock()


def event_seconds(action: Action, repeats: int = 20) -> float:
    """Median seconds of a function that only enqueues work on the GPU."""
    return statistics.median(CudaClock().each(lambda: None, action, repeats))


def copy_bandwidth(size: int = 1 << 31) -> float:
    """Bytes read and written per second by a captured copy of `size` bytes on the GPU."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda").random_(0, 255)
    target = torch.empty_like(source)
    return 2 * size / graph_seconds([lambda: target.copy_(source)], replays=10)


def graph_seconds(calls: Sequence[Action], replays: int = 9, least: float = 2e-3) -> float:
    """Median seconds of one of `calls`, captured one after another (each on buffers of its own) in one CUDA graph.

    The graph repeats the round of calls until it runs for about `least` seconds, so that launches do not count.
    """
    for call in calls:
        call()
    rounds = max(1, min(20, int(least / max(CudaClock().run(lambda: [call() for call in calls]), 1e-5))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    graph.replay()
    return event_seconds(graph.replay, replays) / (rounds * len(calls))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

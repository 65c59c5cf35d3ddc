"""Times on a GPU: graph replays between events, and the bandwidth of a large copy as the floor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch


def copy_bandwidth() -> float:
    """Bytes read and written per second by a copy of 2 GiB."""
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda").random_(0, 255)
    target = torch.empty_like(source)
    seconds = graph_seconds([lambda: target.copy_(source)], replays=10)
    return 2 * source.numel() / seconds


def graph_seconds(calls: Sequence[Callable[[], object]], replays: int = 9, least: float = 2e-3) -> float:
    """Median seconds of one of `calls`, captured one after another (each on buffers of its own) in one graph.

    The graph repeats the round of calls until it runs for about `least` seconds, so that launches do not count.
    """
    for call in calls:
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for call in calls:
        call()
    torch.cuda.synchronize()
    rounds = max(1, min(20, int(least / max(time.perf_counter() - begin, 1e-5))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    graph.replay()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(replays)]
    for start, end in marks:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) * 1e-3 for start, end in marks]
    return statistics.median(times) / (rounds * len(calls))

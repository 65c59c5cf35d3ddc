"""Captured CUDA graphs by key, a bounded number of them; what cannot be captured runs without, and says so."""

from __future__ import annotations

import gc
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any, Protocol

import torch

from glimpse.engine.device.covering import Covering, Shape

Key = tuple[Any, ...]
"""Of a step that others may cover: its kind and its shape."""
Step = tuple[Key, Callable[[], None]]
"""A graph's key, and what it is captured of."""


class Quiet(Protocol):
    """State that warm-up runs must leave alone, put to rest."""

    def wake(self) -> None:
        """Puts it back."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a function was run."""

    graph: bool
    fresh: bool = False
    """It was captured (and its kernels compiled) just now: its time says nothing."""
    reason: str = ""
    """Why not as a graph."""
    covered: bool = False
    """In a shape much larger than its own: its time says nothing of such steps either."""

    def __and__(self, other: Ran) -> Ran:
        """How both were run together."""
        graph, fresh = self.graph and other.graph, self.fresh or other.fresh
        return Ran(graph, fresh, self.reason or other.reason, self.covered or other.covered)

    @property
    def telling(self) -> bool:
        """Whether such steps take as long as this one."""
        return not self.fresh and not self.covered


@dataclass(frozen=True, slots=True)
class _Held:
    graph: torch.cuda.CUDAGraph
    bytes: int


class Graphs:
    """Captures a function the first time it is asked for, and replays it afterwards.

    The functions must read and write the same tensors every time. All graphs share one memory pool, so intermediates of
    one may lie where those of another lay: only tensors made outside may carry results. The graph not used for longest
    is dropped where a new one would be too many.
    """

    WARM_UP = 2
    """Runs before a capture: kernels are compiled, libraries make their workspaces."""
    MOST = 96
    """Graphs held at once."""
    SHARE = 0.05
    """Of the time that steps have been run, what captures that nothing but speed asks for may take."""
    CREDIT, WARM_CREDIT = 2.0, 0.5
    """Seconds of captures that need no such share: what the first steps of an engine that was not warmed up want, and
    one that was."""
    SEEN = 32
    """Runs that say how long it is from one to the next."""
    IDLE = 1.0
    """Seconds from one run to the next that count, at most: longer, nothing was asked for."""

    def __init__(
        self, device: torch.device, quiet: Callable[[], Quiet], most: int = MOST,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:  # fmt: skip
        """`quiet` makes a run of any function harmless, until it is woken; `clock`: seconds."""
        self._device, self._quiet, self._most, self._clock = device, quiet, most, clock
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._shapes: defaultdict[Hashable, dict[Shape, None]] = defaultdict(dict)
        self._last, self._spent, self._worked, self._credit = clock(), 0.0, 0.0, self.CREDIT
        self._gaps: deque[float] = deque([0.0], maxlen=self.SEEN)
        self.covering = Covering(self)
        self._failed: dict[Key, str] = {}
        self._memory: Any = None
        self.dropped = 0
        """Graphs given up for others."""
        self.version = 0
        """Another one whenever there is a shape more, or one less."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """Memory of the device that capturing the graphs held took, in bytes."""
        return sum(held.bytes for held in self._held.values())

    def shapes(self, kind: Hashable) -> list[Shape]:
        """Shapes of a kind that were run and not dropped, captured or not."""
        return list(self._shapes[kind])

    def holds(self, kind: Hashable, shape: Shape) -> bool:
        """Whether `shape` is one of them."""
        return shape in self._shapes[kind]

    def allows(self) -> bool:
        """Whether captures have taken no more than their share of the time."""
        return self._spent <= self._credit + self.SHARE * self._worked

    @property
    def step_seconds(self) -> float:
        """From one run to the next, of late: as a rule, for prompts and pauses come between."""
        return median(self._gaps)

    @contextmanager
    def warming(self) -> Iterator[None]:
        """What is captured while the block runs counts for no share: nobody waits for a step."""
        before = self._spent, self._worked
        try:
            yield
        finally:
            (self._spent, self._worked), self._last, self._credit = before, self._clock(), self.WARM_CREDIT

    def make(self, step: Step) -> bool:
        """Captures a step that is not held and runs nothing; whether it is held now."""
        key, function = step
        if self._device.type == "cuda" and key not in self._held and self._try_capture(key, function) is not None:
            del self._failed[key]  # what there is no memory for now there may be later
            return False
        self._know(key[0], key[-1])
        return True

    def run(self, key: Key, function: Callable[[], None]) -> Ran:
        """Replays the graph of `key`, capturing `function` if it is new, or runs it where it cannot be captured."""
        now = self._clock()
        gap = min(now - self._last, self.IDLE)
        self._worked, self._last = self._worked + gap, now
        self._gaps.append(gap)
        if len(key) == 2:
            self._know(*key)
        if key in self._held:
            self._held.move_to_end(key)
            self._held[key].graph.replay()
            return Ran(graph=True)
        reason = "no CUDA device" if self._device.type != "cuda" else self._failed.get(key)
        if reason is None:
            reason = self._try_capture(key, function)
            self._last = self._clock()
            self._spent += self._last - now
        if reason is not None:
            function()
            return Ran(graph=False, reason=reason)
        self._held[key].graph.replay()
        return Ran(graph=True, fresh=True)

    def drop(self, kind: Hashable, doomed: Callable[[Shape], bool] = lambda shape: True) -> None:
        """Gives up the graphs of the `doomed` shapes of a kind."""
        for shape in filter(doomed, self.shapes(kind)):
            self._forget(kind, shape)
            if (kind, shape) in self._held:
                self._drop((kind, shape))

    def _know(self, kind: Hashable, shape: Shape) -> None:
        if shape not in self._shapes[kind]:
            self._shapes[kind][shape] = None
            self.version += 1

    def _forget(self, kind: Hashable, shape: Shape) -> None:
        if shape in self._shapes[kind]:
            del self._shapes[kind][shape]
            self.version += 1

    def _drop(self, key: Key) -> None:
        # A replay may still be under way.
        torch.cuda.synchronize(self._device)
        self._held.pop(key).graph.reset()
        self._forget(key[0], key[-1])
        self.dropped += 1
        if not self._held:
            # The pool went with its last graph.
            self._memory = None

    def _try_capture(self, key: Key, function: Callable[[], None]) -> str | None:
        """None if the graph is held now, else why it cannot be."""
        while len(self._held) >= self._most:
            self._drop(next(iter(self._held)))
        quiet, stream = self._quiet(), torch.cuda.current_stream(self._device)
        try:
            self._warm_up(function)
            self._held[key] = self._capture(function)
        except RuntimeError as error:
            self._failed[key] = f"a graph could not be captured: {str(error).splitlines()[0]}"
        finally:
            # A capture that fails leaves its own stream current.
            torch.cuda.set_stream(stream)
            quiet.wake()
        return self._failed.get(key)

    def _warm_up(self, function: Callable[[], None]) -> None:
        current, stream = torch.cuda.current_stream(self._device), _side_stream(self._device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UP):
                function()
        current.wait_stream(stream)
        torch.cuda.synchronize(self._device)

    def _capture(self, function: Callable[[], None]) -> _Held:
        torch.cuda.empty_cache()
        before, _ = torch.cuda.mem_get_info(self._device)
        graph = torch.cuda.CUDAGraph()
        # Another thread may use the device for something else meanwhile.
        stream = _side_stream(self._device)
        with uncollected(), torch.cuda.graph(
            graph, pool=self._memory, stream=stream, capture_error_mode="thread_local"
        ):  # fmt: skip
            function()
        self._memory = self._memory or graph.pool()
        after, _ = torch.cuda.mem_get_info(self._device)
        return _Held(graph, max(0, before - after))


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected while the block runs: a graph that an engine left behind cannot be freed during a capture,
    which fails then."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """The one stream that graphs of a device are made on: the library of products keeps 32 MiB for each it has met."""
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream

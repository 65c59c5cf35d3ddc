"""Measures the step-time surface with the engine's own steps, and fits the costs that pacers price with.

Every step is a real one (planning, forward, sampling, commit); only the context is made up: pages of noise are put into
the cache as a kept prompt, so that nothing has to be prefilled. How long a step takes does not depend on what it reads.
Which engine runs it, and who times its steps, is not known here: it notes every step in the costs of its parts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Listed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from statistics import median

import torch

from glimpse.cache.sequence import Sequence
from glimpse.engine.build import build_engine
from glimpse.engine.loaded import Loaded
from glimpse.engine.options import EngineOptions
from glimpse.engine.submit import make_requests
from glimpse.errors import ArgumentError
from glimpse.pacing.calibration import Calibration, Point, device_name, shape_of
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.planning import roofs
from glimpse.planning.effort import Effort
from glimpse.sampling.params import SamplingParams

Progress = Callable[[int, int], None]
Timed = tuple[StepLoad, list[float]]
LEAST_CONTEXT = 64
LEAN = 0.002
"""A calibration has seen all kinds of step: where launches cost more than bytes, what bytes predict is far off."""


def calibrate(loaded: Loaded, effort: Effort | None = None, progress: Progress | None = None) -> Calibration:
    """Measure this device with this model. Takes about `effort.seconds` at most.

    Every cell (context, batch and draft length) gets an equal share of the time left, and at least one round. Raises
    ArgumentError if the context is too short to measure anything.
    """
    effort, checkpoint = effort or Effort(), loaded.checkpoint
    device, dtype = checkpoint.decoder.device, checkpoint.decoder.dtype
    width, rate = roofs.bandwidth(device), roofs.rate(device, dtype)
    spec = checkpoint.spec
    costs = StepCosts(spec.step_weight_bytes(dtype), spec.kv_bytes_per_token(dtype), width, lean=LEAN, near=1.0)
    kinds = _surface(loaded, effort, progress or _silent)
    for kind in kinds:
        costs.observe(kind.load, kind.seconds)
    return Calibration(
        device=device_name(device),
        model=checkpoint.name,
        dtype=str(dtype).removeprefix("torch."),
        shape=shape_of(spec),
        coefficients=tuple(float(value) for value in costs.coefficients),
        points=_points(costs),
        bandwidth=width,
        rate=rate,
        memory=roofs.memory(device),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        torch=torch.__version__,
        spread=median(kind.spread for kind in kinds),
    )


@dataclass(slots=True)
class _Kind:
    """What steps of one kind took."""

    load: StepLoad
    """Of the fastest pass."""
    seconds: float
    """The median of the fastest pass, so that a burst of other work is left out."""
    repeats: list[float]
    """Of all passes."""

    @property
    def spread(self) -> float:
        """By how much repeats take longer than the fastest of them."""
        return median(self.repeats) / min(self.repeats) - 1

    def hear(self, load: StepLoad, seconds: list[float]) -> None:
        """One more pass."""
        self.repeats += seconds
        if median(seconds) < self.seconds:
            self.load, self.seconds = load, median(seconds)


def _surface(loaded: Loaded, effort: Effort, progress: Progress) -> list[_Kind]:
    """Every kind of step. The first pass is always finished, whatever time it takes."""
    cells = _cells(loaded, effort)
    kinds: dict[tuple[int, ...], _Kind] = {}
    clock = _Clock(time.perf_counter() + effort.seconds, effort.passes * len(cells), progress)
    for turn in range(effort.passes):
        for load, seconds in _one_pass(loaded, effort, cells[:: -1 if turn % 2 else 1], clock, finish=turn == 0):
            kinds.setdefault(load.kind, _Kind(load, math.inf, [])).hear(load, seconds)
    progress(clock.total, clock.total)
    return list(kinds.values())


@dataclass(slots=True)
class _Clock:
    """Shares out the time there is."""

    ends: float
    total: int
    hear: Progress
    done: int = 0

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.ends

    def next(self) -> float:
        """Until when the next cell may take: an equal share for each that is left."""
        self.hear(self.done, self.total)
        now = time.perf_counter()
        self.done += 1
        return now + (self.ends - now) / (self.total - self.done + 1)


def _one_pass(loaded: Loaded, effort: Effort, cells: Listed[_Cell], clock: _Clock, *, finish: bool) -> Iterator[Timed]:
    """All cells once. Those of a draft length share an engine: what it prepares for them it prepares once."""
    for drafts, group in groupby(cells, key=lambda cell: cell.drafts):
        bench = _Bench(loaded, effort, drafts)
        for cell in group:
            if clock.over and not finish:
                break
            bench.run(cell, clock.next())
        yield from bench.timed()


def _points(costs: StepCosts) -> tuple[Point, ...]:
    """The kinds of step seen, by their loads."""
    points = sorted(costs.points(), key=lambda point: tuple(point[0]))
    return tuple(Point(tuple(map(float, load[1:])), took, float(load @ costs.coefficients)) for load, took in points)


@dataclass(frozen=True, slots=True)
class _Cell:
    drafts: int
    context: int
    batch: int


def _cells(loaded: Loaded, effort: Effort) -> list[_Cell]:
    """Those that fit the context, the rows and the pages there are; at least those of one context."""
    most = loaded.context - effort.room
    if most < LEAST_CONTEXT:
        raise ArgumentError(
            f"a context of {loaded.context} is too short to calibrate with; at least {LEAST_CONTEXT + effort.room} "
            "is needed"
        )
    return [
        _Cell(drafts, context, batch)
        for drafts in effort.drafts
        for context in sorted({min(context, most) for context in effort.contexts})
        for batch in effort.batches
        if batch <= loaded.slots and batch * loaded.pool.pages_for(context + effort.room) <= loaded.pool.free_pages
    ]


class _Bench:
    """An engine of one draft length, and what its steps took."""

    def __init__(self, loaded: Loaded, effort: Effort, drafts: int) -> None:
        drafter = "sparse" if drafts else "none"
        self._loaded, self._effort = loaded, effort
        # The prompts are noise: nobody may come to share what was computed of them.
        options = EngineOptions(drafter=drafter, pacer="fixed", draft_tokens=drafts, prefix_reuse=False)
        self._engine = build_engine(loaded, options)

    def run(self, cell: _Cell, until: float) -> None:
        """Rounds of one cell until there are enough, or time is up."""
        loaded, engine, effort = self._loaded, self._engine, self._effort
        params = SamplingParams(max_tokens=effort.room, temperature=0.0, ignore_eos=True)
        with ExitStack() as stack:
            for row in range(cell.batch):
                prompt = stack.enter_context(_made_up(loaded, cell.context, row))
                (request,) = make_requests(loaded, engine, prompt, params)
                engine.add(request)
                stack.callback(engine.cancel, request)
            # The rows draft in step, so that a commit ends a round of all of them; the first is of the prompts' tails.
            wanted = 1 + (effort.rounds if cell.drafts else effort.plain_steps)
            commits = 0
            while commits < wanted and engine.busy and (commits < 2 or time.perf_counter() < until):
                commits += bool(engine.step())

    def timed(self) -> Iterator[Timed]:
        """Every kind of step with what its last repeats took."""
        for load, seconds in self._engine.parts.costs.samples():
            yield StepLoad(*(round(count) for count in load[1:])), seconds


@contextmanager
def _made_up(loaded: Loaded, context: int, row: int) -> Iterator[list[int]]:
    """A prompt of `context` tokens whose pages are in the cache already, filled with noise."""
    pool, generator = loaded.pool, torch.Generator().manual_seed(row)
    tokens = torch.randint(loaded.checkpoint.spec.vocab_size, (context,), generator=generator).tolist()
    sequence = Sequence(pool, expected=context)
    sequence.reserve(context)
    for slot, count in sequence.extents(0, context):
        pool.keys[:, :, slot : slot + count].normal_()
        pool.values[:, :, slot : slot + count].normal_()
    key = loaded.prefixes.keep(tokens, sequence.pages)
    sequence.release()
    try:
        yield tokens
    finally:
        loaded.prefixes.drop(key)


def _silent(done: int, total: int) -> None:
    """Hears progress and says nothing."""

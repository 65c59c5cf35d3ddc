"""Measures the step-time surface with the engine's own steps, and fits the costs that pacers price with.

Every step is a real one (planning, forward, sampling, commit); only the context is made up: pages of noise are put into
the cache as a kept prompt, so that nothing has to be prefilled. How long a step takes does not depend on what it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

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
from glimpse.sampling.params import SamplingParams

Progress = Callable[[int, int], None]
CONTEXTS = (192, 768, 3072, 12288)
"""Tokens already read, cut to what fits. Apart by more than the factor of two within which steps are of one kind."""
DRAFTS = (0, 1, 3, 7, 15)
"""Draft lengths. 0 is plain decoding; the others give draft steps and a verification each round."""
LEAST_CONTEXT = 64


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds of each kind, until `seconds` are used up in all."""

    seconds: float = 60.0
    rounds: int = 3
    plain_steps: int = 6
    contexts: tuple[int, ...] = CONTEXTS
    batches: tuple[int, ...] = (1,)
    drafts: tuple[int, ...] = DRAFTS


def calibrate(loaded: Loaded, effort: Effort | None = None, progress: Progress | None = None) -> Calibration:
    """Measure this device with this model. Takes about `effort.seconds` at most.

    Every cell (context and draft length) gets an equal share of the time left, and at least one round. Raises
    ArgumentError if the context is too short to measure anything.
    """
    effort, checkpoint = effort or Effort(), loaded.checkpoint
    device, dtype = checkpoint.decoder.device, checkpoint.decoder.dtype
    width, rate = roofs.bandwidth(device), roofs.rate(device, dtype)
    spec = checkpoint.spec
    costs = StepCosts(spec.weight_bytes(dtype), spec.kv_bytes_per_token(dtype), width)
    for load, seconds in _surface(loaded, effort, progress or _silent):
        costs.observe(load, seconds)
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
    )


def _surface(loaded: Loaded, effort: Effort, progress: Progress) -> list[tuple[StepLoad, float]]:
    """Every kind of step with its seconds: the lesser of two passes, so that a burst of other work is left out."""
    cells = _cells(loaded, effort)
    cells += cells[::-1]
    ends = time.perf_counter() + effort.seconds
    least: dict[tuple[int, ...], tuple[StepLoad, float]] = {}
    for index, cell in enumerate(cells):
        progress(index, len(cells))
        if time.perf_counter() > ends and 2 * index >= len(cells):
            break
        share = (ends - time.perf_counter()) / (len(cells) - index)
        for load, seconds in _measure(loaded, cell, effort, time.perf_counter() + share):
            if load.kind not in least or seconds < least[load.kind][1]:
                least[load.kind] = load, seconds
    progress(len(cells), len(cells))
    return list(least.values())


def _points(costs: StepCosts) -> tuple[Point, ...]:
    """The kinds of step seen, by their loads."""
    points = sorted(costs.points(), key=lambda point: tuple(point[0]))
    return tuple(Point(tuple(map(float, load[1:])), took, float(load @ costs.coefficients)) for load, took in points)


@dataclass(frozen=True, slots=True)
class _Cell:
    context: int
    batch: int
    drafts: int


def _cells(loaded: Loaded, effort: Effort) -> list[_Cell]:
    """Those that fit the context, the rows and the pages there are; at least those of one context."""
    most = loaded.context - _room(effort)
    if most < LEAST_CONTEXT:
        raise ArgumentError(
            f"a context of {loaded.context} is too short to calibrate with; at least {LEAST_CONTEXT + _room(effort)} "
            "is needed"
        )
    return [
        _Cell(context, batch, drafts)
        for context in sorted({min(context, most) for context in effort.contexts})
        for batch in effort.batches
        for drafts in effort.drafts
        if batch <= loaded.slots and batch * loaded.pool.pages_for(context + _room(effort)) <= loaded.pool.free_pages
    ]


def _room(effort: Effort) -> int:
    """Tokens that the longest cell may write."""
    return max(effort.plain_steps, effort.rounds * (max(effort.drafts) + 1)) + max(effort.drafts) + 2


def _measure(loaded: Loaded, cell: _Cell, effort: Effort, until: float) -> list[tuple[StepLoad, float]]:
    """The steps of one cell, by kind, each with its median seconds: rounds until there are enough, or time is up."""
    drafter = "sparse" if cell.drafts else "none"
    engine = build_engine(loaded, EngineOptions(drafter=drafter, pacer="fixed", draft_tokens=cell.drafts))
    params = SamplingParams(max_tokens=_room(effort), temperature=0.0, ignore_eos=True)
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
    return [(StepLoad(*(round(count) for count in load[1:])), took) for load, took in engine.parts.costs.points()]


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

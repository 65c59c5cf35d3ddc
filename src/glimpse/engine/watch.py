"""Seeing what every row of an engine did, step by step; an engine that nobody watches does nothing for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from glimpse.attention import RowSpec
from glimpse.engine.phases import StepPlan
from glimpse.engine.request import Progress, Request


class Did(IntEnum):
    """What a row did in a step."""

    PREFILL = 0
    """Read a part of its prompt."""
    DRAFT = 1
    VERIFY = 2
    """Verified what it had drafted."""
    PLAIN = 3
    """Wrote one token, nothing having been drafted."""


class Moment(Protocol):
    """A point of the device's time, or of the host's."""

    def since(self, earlier: Any) -> float:
        """Seconds from an earlier moment of the same kind; of a GPU both must have come."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment of the host's clock."""

    seconds: float

    def since(self, earlier: Instant) -> float:
        """See `Moment.since`."""
        return self.seconds - earlier.seconds


@dataclass(frozen=True, slots=True)
class Seen:
    """One step, or several equal ones; one entry a row in each of the lists."""

    begin: Moment
    end: Moment | None
    """None where only the beginning is known."""
    slots: Sequence[int]
    requests: Sequence[Request]
    did: Sequence[int]
    """`Did`."""
    drafted: Sequence[int]
    """Draft tokens that the row verified."""
    committed: Sequence[int]
    """Tokens that it wrote."""
    steps: int = 1


Watch = Callable[[Seen], None]
"""Called with every step once its outcome is known, in the thread that steps; prompts of a device are heard earlier
than the steps that ran before."""


def attach(engine: Any, watch: Watch | None) -> None:
    """From now on `watch` sees the steps of an engine; None: nobody does."""
    own = [part for part in (engine, *map(engine.__dict__.get, ("_settler", "_reader"))) if hasattr(part, "watch")]
    if not own:
        raise TypeError(f"{type(engine).__name__} cannot be watched")
    for part in own:
        part.watch = watch


def _full(spec: RowSpec, most: int) -> Did:
    """What a row did that commits; one of more tokens than drafts have, or of tokens without logits, ended a prompt."""
    if spec.outputs < spec.count or spec.count > most + 1:
        return Did.PREFILL
    return Did.VERIFY if spec.count > 1 else Did.PLAIN


def step_of(plan: StepPlan, running: dict[int, Request], progress: Sequence[Progress], most: int, begun: float) -> Seen:
    """A step of the host's engine that began at `begun` (time.perf_counter) and has just been settled; drafts have at
    most `most` tokens.
    """
    wrote = {id(made.request): len(made.commit.token_ids) for made in progress}
    did = [Did.PREFILL] * len(plan.prefill) + [Did.DRAFT] * len(plan.draft) + [_full(spec, most) for spec in plan.full]
    slots = [spec.slot for spec in plan.specs]
    requests = [running[slot] for slot in slots]
    drafted = [spec.count - 1 if what is Did.VERIFY else 0 for spec, what in zip(plan.specs, did, strict=True)]
    committed = [wrote.get(id(request), 0) if place >= plan.bounds[0] else 0 for place, request in enumerate(requests)]
    return Seen(Instant(begun), Instant(time.perf_counter()), slots, requests, did, drafted, committed)

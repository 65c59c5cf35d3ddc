"""One timed run of a filled batch: tokens, seconds, what the device was busy with, what became of the drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from glimpse.bench.clock import Clock
from glimpse.engine.face import EngineFace
from glimpse.engine.request import Request
from glimpse.engine.watch import Seen, attach


@dataclass(slots=True)
class Window:
    """What happened while the clock ran."""

    seconds: float = 0.0
    tokens: int = 0
    by_row: list[int] = field(default_factory=list)
    """Tokens of each row."""
    captured: int = 0
    """Graphs captured meanwhile: such a run says nothing."""
    ended: bool = False
    """Whether a row came to its end before the others had written what was asked for."""
    busy: float = 0.0
    """Seconds of the device's steps."""
    steps: int = 0
    """Forwards."""
    rounds: list[list[tuple[int, int, int]]] = field(default_factory=list)
    """By step in which any row wrote: row, draft tokens verified, tokens written, of each that did."""

    def take(self, seen: Sequence[Seen], requests: Sequence[Request]) -> None:
        """Counts steps that have been seen."""
        rows = {id(request): row for row, request in enumerate(requests)}
        for step in seen:
            self.steps += step.steps
            self.busy += step.end.since(step.begin) if step.end is not None else 0.0
            wrote = [
                (rows[id(request)], int(drafted), int(committed))
                for request, drafted, committed in zip(step.requests, step.drafted, step.committed, strict=True)
                if committed
            ]
            self.rounds += [wrote] if wrote else []


def run_window(engine: EngineFace, requests: Sequence[Request], clock: Clock, tokens: int) -> Window:
    """Steps until the running requests have written `tokens` more together, or one of them has ended.

    From an idle device to an idle device. A step is read while the next one runs: what was in flight at the beginning
    counts, what is at the end does not.
    """
    window, seen, before = Window(), list[Seen](), [len(request.committer.token_ids) for request in requests]
    captures = _captures(engine)
    attach(engine, seen.append)
    try:
        window.seconds = clock.run(lambda: step_until(engine, requests, tokens))
    finally:
        attach(engine, None)
    after = [len(request.committer.token_ids) for request in requests]
    window.by_row = [last - first for first, last in zip(before, after, strict=True)]
    window.tokens = sum(window.by_row)
    window.take(seen, requests)
    window.captured = _captures(engine) - captures
    window.ended = any(request.finished for request in requests)
    return window


def step_until(engine: EngineFace, requests: Sequence[Request], tokens: int) -> None:
    """Steps until `tokens` more have been written, or a request has ended. Raises what became of that one."""
    while tokens > 0 and not any(request.finished for request in requests):
        tokens -= sum(len(made.commit.token_ids) for made in engine.step())
    for request in requests:
        if request.error is not None:
            raise request.error


def _captures(engine: EngineFace) -> int:
    """Graphs captured so far, those given up counted too."""
    facts: dict[str, Any] = dict(engine.facts)
    return int(facts.get("graphs", 0)) + int(facts.get("graphs_dropped", 0))

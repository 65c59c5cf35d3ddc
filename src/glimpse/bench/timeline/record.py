"""A run that is watched: requests of mixed lengths come one after another, and leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from glimpse.bench.decode.cell import params_of
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded
from glimpse.engine.request import Request
from glimpse.engine.submit import make_requests
from glimpse.engine.watch import Seen, attach


@dataclass(frozen=True, slots=True)
class Traffic:
    """How requests come."""

    steps: int = 160
    """Forwards that are watched; parts of prompts that a device reads by themselves count too."""
    gap: int = 4
    """Steps between arrivals, when half as many requests as rows are there from the beginning."""
    least: int = 16
    most: int = 96
    """Tokens that a request writes."""


def record(
    loaded: Loaded, engine: EngineFace, prompts: Sequence[list[int]], traffic: Traffic, temperature: float = 0.7
) -> list[Seen]:
    """What the rows did in the first `traffic.steps` steps, or a few more: a round is not cut.

    Each prompt is asked for twice: random lengths of its end, from a quarter of it to the whole.
    """
    draw, seen = Random(0), list[Seen]()
    coming = [
        _request(loaded, engine, prompt, draw, traffic, place, temperature)
        for place, prompt in enumerate([*prompts, *prompts])
    ]
    asked, begun = list(coming), max(1, len(prompts) // 2)
    for request in coming[:begun]:
        engine.add(request)
    del coming[:begun]
    attach(engine, seen.append)
    try:
        for step in count(1):
            if coming and step % traffic.gap == 0:
                engine.add(coming.pop(0))
            if not (engine.busy or coming) or sum(own.steps for own in seen) >= traffic.steps:
                break
            engine.step()
    finally:
        attach(engine, None)
        for request in asked:
            engine.cancel(request)
    return seen


def _request(
    loaded: Loaded, engine: EngineFace, prompt: list[int], draw: Random, traffic: Traffic, seed: int,
    temperature: float,
) -> Request:  # fmt: skip
    length = draw.randint(max(1, len(prompt) // 4), len(prompt))
    params = params_of(temperature, seed, draw.randint(traffic.least, traffic.most))
    (request,) = make_requests(loaded, engine, prompt[-length:], params)
    return request

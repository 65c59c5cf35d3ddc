"""How the rows of a million tokens are written: all at once, or with requests that come and go at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from glimpse.speculation import Speculation

AT_ONCE = 4
"""Requests that come before a step, at most."""
PUT_BACK = 0.1
"""The chance, at each step, that a running request is put back."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one request."""

    tokens: list[int]
    speculation: Speculation
    put_back: int = 0


def together(llm: LLM, prompts: Sequence[list[int]], params: Sequence[SamplingParams]) -> list[Written]:
    """All requests are there from the start and run to their ends."""
    return [Written(list(out.token_ids), out.speculation) for out in llm.generate(list(prompts), params)]


def disturbed(
    llm: LLM, prompts: Sequence[list[int]], params: Sequence[SamplingParams], seed: int, chance: float = PUT_BACK
) -> list[Written]:
    """The requests come in a random order while others run, and are put back at random. Raises what ended one of them.

    So rows join and leave, drafts begin at different steps, and what was written before is read again.
    """
    draw, engine = random.Random(seed), llm._engine
    requests = [
        make_requests(llm.loaded, engine, ids, own)[0] for ids, own in zip(prompts, params, strict=True)
    ]  # fmt: skip
    coming = draw.sample(requests, len(requests))
    while coming or engine.busy:
        for _ in range(min(len(coming), draw.randint(0, AT_ONCE))):
            engine.add(coming.pop())
        running = [request for request in requests if request.clock.admitted and not request.finished]
        if running and draw.random() < chance:
            engine.preempt(draw.choice(running))
        engine.step()
    for request in requests:
        if request.error is not None:
            raise request.error
    return [
        Written(list(request.committer.token_ids), request.speculation, request.preempted) for request in requests
    ]  # fmt: skip

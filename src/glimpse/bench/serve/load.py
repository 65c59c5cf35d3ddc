"""Requests that come at random moments, whatever the server makes of those before them (an open loop)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from glimpse.bench.serve.http import Address, request
from glimpse.errors import GlimpseError

_TIMES = ("due", "sent", "first", "last")
_SAID = ("drafter", "drafted", "accepted", "ttft_ms")
"""Of `usage.speculation`, what a result file keeps: thousands of requests each have one."""


@dataclass(slots=True)
class Seen:
    """What the client of one request saw; times in seconds from the load's begin."""

    due: float
    """When it was to be sent."""
    sent: float = 0.0
    first: float | None = None
    """When its first text came."""
    last: float = 0.0
    tokens: int = 0
    """Tokens written, by the server's usage (else streamed parts with text)."""
    status: int = 0
    """0: no answer."""
    error: str = ""
    speculation: Mapping[str, Any] = field(default_factory=dict)
    """`usage.speculation`, where the server has one."""

    @property
    def ok(self) -> bool:
        """Whether it came to a good end."""
        return self.status == 200 and not self.error and self.first is not None

    @property
    def ttft(self) -> float:
        """Seconds from when it was due to its first text: a client that is late counts against the server."""
        return (self.first or self.last) - self.due

    @property
    def tpot(self) -> float | None:
        """Seconds a token after the first; None for fewer than two."""
        return (self.last - self.first) / (self.tokens - 1) if self.first is not None and self.tokens > 1 else None

    def to_json(self) -> dict[str, Any]:
        """As a part of a run of a result file: times to microseconds, and what of speculation is one number."""
        times = {name: None if (time := getattr(self, name)) is None else round(time, 6) for name in _TIMES}
        said = {name: self.speculation[name] for name in _SAID if name in self.speculation}
        return asdict(self) | times | {"speculation": said}


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and how often."""

    address: Address
    path: str
    """"/v1/completions" or "/v1/chat/completions"."""
    bodies: Sequence[Mapping[str, Any]]
    """One after the other, from the front again when they are used up."""
    rate: float
    """Requests a second, on average: gaps are exponential (a Poisson process)."""
    seconds: float
    """How long requests are sent; their answers are waited for."""
    seed: int = 0
    patience: float = 120.0
    """Seconds after the last request at which what is still open is given up."""

    def arrivals(self) -> list[float]:
        """The moments at which requests are due, in seconds from the begin; at least one."""
        draw, moments = random.Random(self.seed), [0.0]
        while (moment := moments[-1] + draw.expovariate(self.rate)) < self.seconds:
            moments.append(moment)
        return moments


async def run(load: Load, tell: Callable[[Seen], None] = lambda seen: None) -> list[Seen]:
    """Sends the load; what became of every request, in the order in which they were due."""
    begun = time.perf_counter()
    found = [Seen(due) for due in load.arrivals()]
    tasks = [
        asyncio.create_task(_one(load, seen, load.bodies[index % len(load.bodies)], begun, tell))
        for index, seen in enumerate(found)
    ]
    _, open_still = await asyncio.wait(tasks, timeout=load.seconds + load.patience)
    for task in open_still:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for seen in found:
        if not seen.last:
            seen.last, seen.error = time.perf_counter() - begun, "given up"
    return found


async def _one(load: Load, seen: Seen, body: Mapping[str, Any], begun: float, tell: Callable[[Seen], None]) -> None:
    await asyncio.sleep(max(0.0, begun + seen.due - time.perf_counter()))
    seen.sent = time.perf_counter() - begun
    try:
        await _follow(load, seen, body, begun)
    except (OSError, EOFError, ValueError) as error:
        seen.error = f"{type(error).__name__}: {error}"
    seen.last = time.perf_counter() - begun
    tell(seen)


async def _follow(load: Load, seen: Seen, body: Mapping[str, Any], begun: float) -> None:
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with request(load.address, "POST", load.path, streamed) as answer:
        seen.status = answer.status
        if answer.status != 200:
            seen.error = (await answer.body())[:200].decode(errors="replace")
            return
        async for event in answer.events():
            if "error" in event:
                seen.error = str(event["error"])[:200]
                return
            if any(map(_has_text, event.get("choices") or ())):
                seen.first = seen.first or time.perf_counter() - begun
                seen.tokens += 1
            if event.get("usage"):
                seen.tokens = event["usage"]["completion_tokens"]
                seen.speculation = event["usage"].get("speculation") or {}


def _has_text(choice: Mapping[str, Any]) -> bool:
    """Whether a streamed choice brings a token; a role alone or an end alone does not."""
    return bool(choice.get("text") or (choice.get("delta") or {}).get("content"))


async def model_of(address: Address) -> str:
    """The name of the first model that a server has. Raises GlimpseError where it does not answer."""
    try:
        async with request(address, "GET", "/v1/models") as answer:
            if answer.status != 200:
                raise GlimpseError(f"{address.host}:{address.port} answers {answer.status} to /v1/models")
            name: str = json.loads(await answer.body())["data"][0]["id"]
            return name
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise GlimpseError(f"no OpenAI-compatible server at {address.host}:{address.port}: {error}") from error

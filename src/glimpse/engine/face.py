"""What an engine is to those who use it, and what follows from its steps alone."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Protocol

from glimpse.cache.prefix import Key
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.request import Progress, Request
from glimpse.engine.residents import Residents
from glimpse.errors import GlimpseError
from glimpse.sampling.params import ResolvedParams

_ARRIVALS = count(1)


class EngineFace(Protocol):
    """Decodes requests together: `step` until nothing is left. Any thread may call it."""

    @property
    def parts(self) -> Parts:
        """What it is composed of."""

    @property
    def options(self) -> EngineOptions:
        """How it decodes."""

    @property
    def steps(self) -> int:
        """Steps run so far."""

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What is worth reporting of how it runs, by name."""

    def warm_up(self) -> int:
        """Makes ready what any step may need, so that none waits for it; returns how many graphs there are now."""

    def refuses(self, params: ResolvedParams) -> str | None:
        """Why it does not decode with these parameters, in one line; None if it does."""

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a request that no forward has read yet."""

    def add(self, request: Request) -> None:
        """Queues a request; one without room for a token has ended already."""

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""

    def preempt(self, request: Request) -> bool:
        """Puts a running request back into the queue and frees what it held; False if it is not running.

        Taken in again, it reads its prompt and what it has written anew and goes on from there. Its noise depends on
        seed and position alone, so the text is the same, except with acceptance "rejection": there its law is.
        """

    def keep_prompt(self, request: Request, report: Callable[[EngineFace], None]) -> Key | None:
        """Reads a request's prompt (it should ask for one token) and keeps its pages; returns their key."""

    def drop_prompt(self, key: Key) -> None:
        """Gives up a kept prompt."""

    def step(self) -> list[Progress]:
        """One step of all running requests; returns what was committed. Raises GlimpseError where memory runs out."""


def keep_prompt(engine: EngineFace, request: Request, report: Callable[[EngineFace], None]) -> Key | None:
    """Reads a request's prompt (it should ask for one token) and keeps its pages; returns their key.

    None where there is nothing to read: the prompt fills the context. Raises what became of the request.
    """
    request.keep = True
    engine.add(request)
    try:
        while not request.finished:
            engine.step()
            report(engine)
    except BaseException:
        engine.cancel(request)
        raise
    if request.error is not None:
        raise request.error
    return request.kept


def enqueue(waiting: deque[Request], request: Request) -> None:
    """Puts a request into the queue, one that was there before back to its place; one that has ended stays out."""
    if not request.finished:
        request.arrival = request.arrival or next(_ARRIVALS)
        insort(waiting, request, key=lambda other: other.arrival)


def put_back(waiting: deque[Request], request: Request) -> None:
    """Puts a request that was running into the queue again."""
    request.preempted += 1
    if not request.committer.token_ids:
        request.prompt_logprobs.clear()
    enqueue(waiting, request)


def admit(
    waiting: deque[Request], residents: Residents, take: Callable[[int, Request], None], *, others: Callable[[], bool]
) -> None:
    """First come, first served, while a row is free and the pages a request is to have are there (`Residents.fits`).

    `take(slot, request)` puts a request to work; `others` says whether any request is running. A request that cannot be
    taken in ends with its error, which its caller will find there.
    """
    while waiting and (slot := residents.free_slot) is not None:
        request = waiting[0]
        try:
            if not residents.fits(request, alone=not others()):
                return
            take(slot, request)
        except GlimpseError as error:
            request.error = error
        waiting.popleft()

"""An engine stepped by one thread of its own, for callers who must not wait for a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread

from glimpse.engine.face import EngineFace
from glimpse.engine.request import Progress, Request
from glimpse.errors import GlimpseError


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A request, and who is to be told of it. Both are called in the worker's thread, and must not wait or raise."""

    request: Request
    hear: Callable[[Progress], None]
    """Told of every commit."""
    done: Callable[[GlimpseError | None], None]
    """Told once, at the end, after everything else: what went wrong, or None."""


class Worker:
    """Steps an engine while there are jobs, and sleeps otherwise. Any thread may call it; nothing but `close` waits.

    Whatever is asked takes effect between two steps.
    """

    def __init__(self, engine: EngineFace, told: Callable[[], None]) -> None:
        """`told` is called in the thread when jobs have been told of a step: what they heard may be handed on."""
        self._engine, self._told = engine, told
        self._wake = Condition()
        self._asked: list[Callable[[], None]] = []
        self._jobs: dict[Request, Job] = {}
        self._closing = False
        self._thread: Thread | None = None

    def submit(self, job: Job) -> None:
        """Queues a request. Raises GlimpseError once it is closed."""
        job.request.hear = job.hear
        with self._wake:
            if self._closing:
                raise _closed()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="glimpse-engine", daemon=True)
                self._thread.start()
        self._ask(lambda: self._begin(job))

    def cancel(self, request: Request) -> None:
        """Ends a request, whatever it is doing; what it has written stays. Without effect once it has ended."""
        self._ask(lambda: self._cancel(request))

    def close(self) -> None:
        """Ends everything under way with a GlimpseError, and the thread with its step. Closing again does nothing."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _ask(self, action: Callable[[], None]) -> None:
        with self._wake:
            self._asked.append(action)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._asked or self._jobs or self._closing)
                asked, self._asked, closing = self._asked, [], self._closing
            for action in asked:
                action()
            if closing:
                self._fail(_closed())
            else:
                self._advance()
            self._told()
            if closing:
                return

    def _begin(self, job: Job) -> None:
        self._jobs[job.request] = job
        self._engine.add(job.request)

    def _cancel(self, request: Request) -> None:
        if request in self._jobs:
            # A part that raises while it lets go has been seen to by then: the others were told, the pages are free.
            with suppress(Exception):
                self._engine.cancel(request)

    def _advance(self) -> None:
        try:
            if any(not request.finished for request in self._jobs):
                self._engine.step()
        except GlimpseError as error:
            self._fail(error)
        except Exception as error:
            failure = GlimpseError(f"the engine failed: {error!r}")
            failure.__cause__ = error
            self._fail(failure)
        for request in [request for request in self._jobs if request.finished]:
            self._jobs.pop(request).done(request.error)

    def _fail(self, error: GlimpseError) -> None:
        """Ends all jobs: whose fault a failed step is, nobody can say."""
        for request in list(self._jobs):
            broken = not request.finished
            self._cancel(request)
            self._jobs.pop(request).done(_alike(error) if broken else request.error)


def _alike(error: GlimpseError) -> GlimpseError:
    """The same for one more caller: a traceback belongs to one, what the error came of to all."""
    made = type(error)(str(error))
    made.__cause__ = error.__cause__
    return made


def _closed() -> GlimpseError:
    return GlimpseError("this AsyncLLM has been closed; make another one to go on")

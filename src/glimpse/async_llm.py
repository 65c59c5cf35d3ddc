"""`AsyncLLM`: the engine of `LLM` for an event loop. Requests join and leave at any moment; nothing blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from glimpse.engine.finish import chunk_of
from glimpse.engine.prompts import single_output
from glimpse.engine.request import Progress, Request
from glimpse.engine.submit import make_requests
from glimpse.engine.worker import Job, Worker
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM, Prompt
from glimpse.outputs import StreamChunk
from glimpse.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class _End:
    error: GlimpseError | None


@dataclass(slots=True)
class _Run:
    request: Request | None = None
    aborted: bool = False


class AsyncLLM:
    """An `LLM` whose engine runs in a thread of its own; many requests of one event loop (or several) share its steps.

        async with AsyncLLM("demo") as llm:
            async for chunk in llm.generate("Once upon a time", SamplingParams(max_tokens=32)):
                print(chunk.text, end="")

    `model` is an LLM, which stays usable and open, or what `LLM` takes, with its keyword `options`. Loading blocks.
    """

    def __init__(self, model: LLM | str | Path = "demo", **options: Any) -> None:
        if isinstance(model, LLM) and options:
            raise ArgumentError(f"{', '.join(options)}: an LLM that is loaded already has its options; leave them out")
        self._own = not isinstance(model, LLM)
        self.llm = model if isinstance(model, LLM) else LLM(model, **options)
        self._worker = Worker(self.llm._engine)
        self._runs: dict[str, _Run] = {}
        self._numbers = count(1)
        self.preemptions = 0
        """How often requests that have ended were put back into the queue."""

    @property
    def running(self) -> int:
        """Requests that have been taken in and are not at their end."""
        return sum(run.request is not None and run.request.clock.admitted > 0 for run in self._runs.values())

    @property
    def waiting(self) -> int:
        """Requests that wait for a row."""
        return len(self._runs) - self.running

    def check(self, prompt: Sequence[int], params: SamplingParams) -> None:
        """Raises the ArgumentError that `generate` would raise for token ids and parameters; begins nothing."""
        make_requests(self.llm.loaded, self.llm._engine, list(prompt), params)

    async def generate(
        self, prompt: Prompt, params: SamplingParams | None = None, *, request_id: str | None = None
    ) -> AsyncGenerator[StreamChunk, None]:
        """Text as it is committed; the last chunk has the whole output.

        Closing the iterator, or cancelling who waits for it, cancels the request. `request_id` names it for `abort`.
        Raises ArgumentError for a wrong prompt or parameters and for a name in use, and what became of the request.
        """
        name, run = self._named(request_id)
        try:
            request = run.request = await self._request(prompt, params)
            if run.aborted:
                request.committer.abort()
            inbox, shown, written, last = self._submit(request), 0, 0, StreamChunk("", (), ())
            while not isinstance(item := await inbox.get(), _End):
                last = chunk_of(item, written)
                shown, written = shown + len(last.text), written + len(last.token_ids)
                if item.commit.finish_reason is None:
                    yield last
                    last = StreamChunk("", (), ())
            if item.error is not None:
                raise item.error
            output = self.llm._finish(request)
            # An abort lets text go that was held back, for it might have begun a stop string.
            yield replace(last, text=last.text + output.text[shown:], output=output)
        finally:
            del self._runs[name]
            if run.request is not None:
                self.preemptions += run.request.preempted
                self._worker.cancel(run.request)

    def abort(self, request_id: str) -> bool:
        """Ends a request at once, whatever it is doing: its iterator gives a last chunk, whose output says "abort".

        Any thread may call it. False if no request of that name is under way.
        """
        run = self._runs.get(request_id)
        if run is None:
            return False
        run.aborted = True
        if run.request is not None:
            self._worker.cancel(run.request)
        return True

    def abort_all(self) -> None:
        """Ends every request as `abort` ends one."""
        for name in list(self._runs):
            self.abort(name)

    async def close(self) -> None:
        """Ends all requests (their iterators raise GlimpseError) and the thread; drops what this object has loaded."""
        await asyncio.to_thread(self._worker.close)
        if self._own:
            self.llm.close()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _named(self, request_id: str | None) -> tuple[str, _Run]:
        name = f"request-{next(self._numbers)}" if request_id is None else request_id
        if name in self._runs:
            raise ArgumentError(f"request_id {name!r} is in use; give each request a name of its own")
        run = self._runs[name] = _Run()
        return name, run

    async def _request(self, prompt: Prompt, params: SamplingParams | None) -> Request:
        llm = self.llm
        # The seed before anything is waited for: requests get theirs in the order in which they were made.
        settled = llm._settled(single_output(params))
        llm._asked += 1

        def made() -> Request:
            (request,) = make_requests(llm._loaded, llm._engine, llm._ids(prompt), settled)
            return request

        return await asyncio.to_thread(made)

    def _submit(self, request: Request) -> asyncio.Queue[Progress | _End]:
        inbox: asyncio.Queue[Progress | _End] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def post(item: Progress | _End) -> None:
            try:
                loop.call_soon_threadsafe(inbox.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody will read it
                self._worker.cancel(request)

        self._worker.submit(Job(request, post, lambda error: post(_End(error))))
        return inbox

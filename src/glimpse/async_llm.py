"""`AsyncLLM`: the engine of `LLM` for an event loop. Requests join and leave at any moment; nothing blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from glimpse.engine.finish import chunk_of
from glimpse.engine.outbox import End, Inbox, Item, Outbox
from glimpse.engine.prompts import single_output
from glimpse.engine.request import Progress, Request
from glimpse.engine.submit import make_requests
from glimpse.engine.worker import Job, Worker
from glimpse.errors import ArgumentError
from glimpse.llm import LLM, Prompt
from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.sampling.params import SamplingParams

Batch = list[tuple[int, StreamChunk]]
_NOTHING = StreamChunk("", (), ())


@dataclass(slots=True)
class _Run:
    """A request by its name, from the moment at which it is asked for."""

    request: Request | None = None
    aborted: bool = False


@dataclass(slots=True)
class _Text:
    """One of the texts that are read together, and how far it has been handed out."""

    index: int
    shown: int = 0
    """Characters."""
    written: int = 0
    """Tokens."""
    last: StreamChunk = _NOTHING
    """What the round that ended it brought: it goes out with the output."""

    def heard(self, progress: Progress) -> StreamChunk | None:
        """The chunk of a round; None of the last."""
        chunk = chunk_of(progress, self.written)
        self.shown, self.written = self.shown + len(chunk.text), self.written + len(chunk.token_ids)
        if progress.commit.finish_reason is None:
            return chunk
        self.last = chunk
        return None

    def ended(self, output: GenerationOutput) -> StreamChunk:
        """The last chunk. An abort lets text go that was held back, for it might have begun a stop string."""
        return self.last._replace(text=self.last.text + output.text[self.shown :], output=output)


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
        self._outbox = Outbox(self._lost)
        self._worker = Worker(self.llm._engine, self._outbox.flush)
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
        """Text as it is committed, a chunk for every round; the last chunk has the whole output.

        Closing the iterator, or cancelling who waits for it, cancels the request. `request_id` names it for `abort`.
        Raises ArgumentError for a wrong prompt or parameters and for a name in use, and what became of the request.
        """
        async with aclosing(self._together([(prompt, params)], request_id, lambda: 0.0)) as batches:
            async for batch in batches:
                for _, chunk in batch:
                    yield chunk

    def together(
        self, asked: Sequence[tuple[Prompt, SamplingParams | None]], *, pause: Callable[[], float]
    ) -> AsyncGenerator[Batch, None]:
        """The texts of several prompts at once: whatever has come of any since it was asked last, in one piece.

        A batch has (which text, chunk), each as `generate` gives it. Between two batches there are about `pause()`
        seconds, but what begins or ends a text comes at once. Raises what the first text to fail raises, and cancels
        the others.
        """
        return self._together(asked, None, pause)

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

    async def _together(
        self, asked: Sequence[tuple[Prompt, SamplingParams | None]], request_id: str | None, pause: Callable[[], float]
    ) -> AsyncGenerator[Batch, None]:
        named = [self._named(request_id) for _ in asked]
        try:
            texts, inbox = dict[Request, _Text](), Inbox(pause)
            # The seeds before anything is waited for: requests get theirs in the order in which they were asked for.
            settled = [self._settled(params) for _, params in asked]
            for index, (_, run) in enumerate(named):
                request = run.request = await self._request(asked[index][0], settled[index])
                if run.aborted:
                    request.committer.abort()
                texts[request] = _Text(index)
                self._submit(request, inbox)
            left = len(named)
            while left:
                batch: Batch = []
                for item in await inbox.take():
                    text = texts[item.request]
                    if isinstance(item, Progress):
                        chunk = text.heard(item)
                    elif item.error is None:
                        left, chunk = left - 1, text.ended(self.llm._finish(item.request))
                    else:
                        if batch:
                            yield batch
                        raise item.error
                    if chunk is not None:
                        batch.append((text.index, chunk))
                if batch:
                    yield batch
        finally:
            for name, run in named:
                self._runs.pop(name, None)
                if run.request is not None:
                    self.preemptions += run.request.preempted
                    self._worker.cancel(run.request)

    def _settled(self, params: SamplingParams | None) -> SamplingParams:
        settled = self.llm._settled(single_output(params))
        self.llm._asked += 1
        return settled

    async def _request(self, prompt: Prompt, params: SamplingParams) -> Request:
        llm = self.llm

        def made() -> Request:
            (request,) = make_requests(llm._loaded, llm._engine, llm._ids(prompt), params)
            return request

        return await asyncio.to_thread(made)

    def _lost(self, request: Request) -> None:
        """The event loop of whoever asked for it is closed: nobody will read of it, or give its name back."""
        self._worker.cancel(request)
        for name, run in list(self._runs.items()):
            if run.request is request:
                self._runs.pop(name, None)

    def _submit(self, request: Request, inbox: Inbox) -> None:
        def hear(item: Item) -> None:
            self._outbox.put(inbox, item)

        self._worker.submit(Job(request, hear, lambda error: hear(End(request, error))))

"""Answers: whole or streamed, given up when the client goes, the time is over, or the engine fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glimpse.async_llm import Batch
from glimpse.serve.errors import ApiError, as_api_error
from glimpse.serve.form import Form, Json, dumped
from glimpse.serve.merge import merged
from glimpse.serve.work import Batches, Work

_LOG = logging.getLogger("glimpse.serve")


class Answer(Response):
    """Does the work when it is sent, so that nothing can be left of a request whose client has gone."""

    def __init__(self, work: Work, form: Form, *, stream: bool) -> None:
        super().__init__()
        self._work, self._form, self._stream = work, form, stream
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it; ends the request within a step once the client has gone."""
        working = asyncio.create_task(self._send(scope, receive, send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if left:
            self._work.served.metrics.left()
        elif working.exception():
            _LOG.error("an answer could not be sent: %r", working.exception())

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with (
                asyncio.timeout(self._work.served.settings.request_seconds) as limit,
                self._work.open(stream=self._stream) as batches,
            ):
                await (self._parts(batches, send) if self._stream else self._whole(batches, scope, receive, send))
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            refusal = self._late() if late else as_api_error(error)
            self._note(error, refusal)
            if self._begun:
                await _write(send, [dumped(refusal.to_json())])
                await self._end(send)
            else:
                await refusal.response()(scope, receive, send)

    async def _whole(self, batches: Batches, scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in batches:
            pass
        outputs = sorted(self._work.outputs.items())
        choices = [self._form.whole(index, output) for index, output in outputs]
        await _json(self._form.head.whole(choices, self._work.usage))(scope, receive, send)

    async def _parts(self, batches: Batches, send: Send) -> None:
        head = self._form.head
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._begun = True
        if opening := [head.part(choice, None) for choice in self._form.opening()]:
            await _write(send, opening)
        async for batch in batches:
            # A reader who is behind gets more text at once; only who asks where it came from gets it round by round.
            await _write(send, self._bodies(batch if head.origins else merged(batch)))
        if head.usage:
            await _write(send, [head.last(self._work.usage)])
        await self._end(send)

    def _bodies(self, batch: Batch) -> Iterator[str]:
        head = self._form.head
        for index, chunk in batch:
            *before, last = self._form.part(index, chunk)
            for choice in before:
                yield head.part(choice, None)
            yield head.part(last, chunk)

    async def _end(self, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    def _late(self) -> ApiError:
        seconds = self._work.served.settings.request_seconds
        return ApiError(504, f"the request took more than {seconds:g} seconds and was ended", code="timeout")

    def _note(self, error: Exception, refusal: ApiError) -> None:
        self._work.served.metrics.failed(refusal.status)
        if refusal.status == 500:
            _LOG.error("a request failed: %r", error, exc_info=error)


async def _gone(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, bodies: Iterable[str]) -> None:
    """Events with these bodies, in one piece."""
    events = "".join([f"data: {body}\n\n" for body in bodies])
    await send({"type": "http.response.body", "body": events.encode(), "more_body": True})


def _json(body: Json) -> Response:
    return Response(dumped(body), media_type="application/json")

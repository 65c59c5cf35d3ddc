"""Requests to their ends: several at once, or one read as it is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from glimpse.engine.face import EngineFace
from glimpse.engine.finish import chunk_of
from glimpse.engine.request import Progress, Request
from glimpse.outputs import GenerationOutput, StreamChunk

Report = Callable[[EngineFace], None]


def run_all(engine: EngineFace, requests: Sequence[Request]) -> None:
    """Runs the engine until all requests have ended; whatever breaks in takes all of them out."""
    for request in requests:
        engine.add(request)
    try:
        while not all(request.finished for request in requests):
            engine.step()
    except BaseException:
        for request in requests:
            engine.cancel(request)
        raise


def chunks(
    engine: EngineFace, request: Request, report: Report, finish: Callable[[Request], GenerationOutput]
) -> Generator[StreamChunk, None, None]:
    """What `follow` gives, as stream chunks; the last one has the whole output, which `finish` makes."""
    last, written = StreamChunk("", (), ()), 0
    # Closed by name: a closed generator of Python 3.12 may leave the ones within it open.
    with closing(follow(engine, request, report)) as steps:
        for progress in steps:
            chunk = chunk_of(progress, written)
            written += len(chunk.token_ids)
            if progress.commit.finish_reason is None:
                yield chunk
            else:
                last = chunk
    yield last._replace(output=finish(request))


def follow(engine: EngineFace, request: Request, report: Report) -> Generator[Progress, None, None]:
    """Every commit of the request, whoever runs the steps; closing the iterator cancels it.

    Runs the engine itself while there is nothing to read, and calls `report` after each such step.
    """
    unread: deque[Progress] = deque()
    request.hear = unread.append
    engine.add(request)
    try:
        while not request.finished or unread:
            if unread:
                yield unread.popleft()
            else:
                engine.step()
                report(engine)
    finally:
        if not request.finished:
            engine.cancel(request)

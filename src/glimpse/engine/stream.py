"""One request, read as it is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from glimpse.engine.face import EngineFace
from glimpse.engine.request import Progress, Request


def follow(
    engine: EngineFace, request: Request, report: Callable[[EngineFace], None]
) -> Generator[Progress, None, None]:
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

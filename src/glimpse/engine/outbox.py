"""From the engine's thread to event loops: what a step has brought goes over in one piece, and waits where it is read.

Waking an event loop takes a system call and often the interpreter's lock: once a step, not once a row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glimpse.engine.request import Progress, Request
from glimpse.errors import GlimpseError


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more comes of a request."""

    request: Request
    error: GlimpseError | None


Item = Progress | End


class Inbox:
    """What one reader has not read yet, of whatever requests it asked for. For the event loop it was made in."""

    def __init__(self, pause: Callable[[], float]) -> None:
        """`pause`, asked whenever it has been read: in so many seconds it is read once more at most, but at once where
        a request begins or ends.

        Readers with the same pause are woken at the same moments: one look at the clock for all of them.
        """
        self.loop = asyncio.get_running_loop()
        self._pause, self._due = pause, 0.0
        self._items: list[Item] = []
        self._begun: set[Request] = set()
        self._ready = False
        """Whether it is time to read."""
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def put(self, item: Item) -> None:
        """One more; wakes the reader, or sees to it that it will be woken."""
        self._items.append(item)
        if self._ready:
            return
        if isinstance(item, End) or item.request not in self._begun or self._due <= self.loop.time():
            self._begun.add(item.request)
            self._wake()
        elif self._timer is None:
            self._timer = self.loop.call_at(self._due, self._wake)

    async def take(self) -> Sequence[Item]:
        """All that has come since the last time, in its order; waits while there is nothing. One reader only."""
        while not self._ready:
            self._reader = self.loop.create_future()
            await self._reader
        items, self._items, self._ready = self._items, [], False
        pause = self._pause()
        self._due = (self.loop.time() // pause + 1) * pause if pause else 0.0
        return items

    def _wake(self) -> None:
        self._ready = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Outbox:
    """What the engine's thread has for inboxes, of several event loops perhaps."""

    def __init__(self, lost: Callable[[Request], None]) -> None:
        """`lost` is told, in `flush`, of requests whose event loop is closed: nobody will read of them."""
        self._lost = lost
        # Another thread that steps the engine puts things in while this one flushes; a deque bears that.
        self._items: deque[tuple[Inbox, Item]] = deque()

    def put(self, inbox: Inbox, item: Item) -> None:
        """Any thread may call it; `inbox` gets it with the next `flush`."""
        self._items.append((inbox, item))

    def flush(self) -> None:
        """Hands everything over; each event loop is woken once."""
        found: dict[asyncio.AbstractEventLoop, list[tuple[Inbox, Item]]] = {}
        while self._items:
            inbox, item = self._items.popleft()
            found.setdefault(inbox.loop, []).append((inbox, item))
        for loop, items in found.items():
            try:
                loop.call_soon_threadsafe(_deliver, items)
            except RuntimeError:  # it is closed
                for request in {item.request for _, item in items}:
                    self._lost(request)


def _deliver(items: Sequence[tuple[Inbox, Item]]) -> None:
    for inbox, item in items:
        inbox.put(item)

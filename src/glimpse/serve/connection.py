"""One client's connection: cut off where a request's head does not come, or nobody reads the answer."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """uvicorn's, which by itself waits for ever for a head that comes byte by byte, and for a reader that does not."""

    patience: ClassVar[float]
    """Seconds that a head may take to arrive, and that an answer may lie unread once the buffers are full."""
    most: ClassVar[int]
    """Connections at once; one more is closed unheard."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a head."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """A part of a request; the clock of its head goes on until it is whole."""
        super().data_received(data)
        if self._between:
            self._await_head()
        else:
            self._stop_head()

    def pause_writing(self) -> None:
        """Begins to wait for the reader."""
        super().pause_writing()
        self._reader = self._reader or self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        self._stop_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        super().connection_lost(exc)
        self._stop_head()
        self._stop_reader()

    @property
    def _between(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head = self._head or self.loop.call_later(self.patience, self._late)

    def _stop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_reader(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def _late(self) -> None:
        self._head = None
        if self._between:
            self.transport.close()


def connection_class(patience: float, most: int) -> type[Connection]:
    """Connections that wait so many seconds, at most so many at once."""
    return type("BoundedConnection", (Connection,), {"patience": patience, "most": most})

"""A server from its start to its end: on SIGTERM or Ctrl-C requests finish, or are handed back as far as they came."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.serve.app import create_app
from glimpse.serve.connection import connection_class
from glimpse.serve.files import connections_allowed
from glimpse.serve.settings import ServeSettings
from glimpse.serve.warming import warm

_LOG = logging.getLogger("glimpse.serve")
_AFTER = 5
"""Seconds that answers have to be sent once their texts have been ended."""
_BACKLOG = 2048
_BURST = 4
"""asyncio takes in a backlog at once before any of it is counted: so many are fewer than the files that are left."""


class Server(uvicorn.Server):
    """Stops taking requests, lets those under way finish, then ends what is left."""

    def __init__(self, llm: LLM, settings: ServeSettings) -> None:
        self._settings = settings
        self._app = create_app(llm, settings)
        most = connections_allowed()
        super().__init__(
            uvicorn.Config(
                self._app, host=settings.host, port=settings.port, access_log=False, log_config=None, lifespan="on",
                http=connection_class(settings.body_seconds, most), ws="none", server_header=False,
                timeout_graceful_shutdown=int(settings.drain_seconds) + _AFTER,
                backlog=min(_BACKLOG, max(1, most // _BURST)),
            )
        )  # fmt: skip

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the server; they are not raised again, for all has ended well by then."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the server; see the class."""
        served = self._app.state.served
        served.gate.draining = True
        ending = asyncio.create_task(self._end_late())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_late(self) -> None:
        await asyncio.sleep(self._settings.drain_seconds)
        served = self._app.state.served
        _LOG.warning("%d texts are handed back unfinished", served.gate.active)
        for engine in served.ways.engines:
            engine.abort_all()


def serve(llm: LLM, settings: ServeSettings, started: Callable[[str], None]) -> None:
    """Serves until SIGTERM or Ctrl-C; `started` is told the address. Raises GlimpseError where it cannot be had."""
    listener = _bound(settings)
    host, port = listener.getsockname()[:2]
    try:
        if not settings.cold_start:
            warm(llm)
        server = Server(llm, settings)
        started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        server.run(sockets=[listener])
    finally:
        listener.close()


def _bound(settings: ServeSettings) -> socket.socket:
    """A listening socket: bound here, so that a port in use is one clear line before anything starts."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise GlimpseError(f"no address to listen at: --host {settings.host!r}: {error.strerror or error}") from error
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)  # from now on clients wait instead of being turned away
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise GlimpseError(f"cannot listen at {where}: {error.strerror or error}; choose another --port") from error
    return listener

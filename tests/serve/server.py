"""A server under test: in a thread of its own, on the loopback, and nothing of a request may be left when it ends."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

from tests.serve.client import Client

from glimpse.llm import LLM
from glimpse.serve.running import Server
from glimpse.serve.settings import ServeSettings


class Running:
    """A server in a thread of its own."""

    def __init__(self, llm: LLM, **settings) -> None:
        self.llm = llm
        self.settings = ServeSettings(**{"name": "tiny", "port": 0, "drain_seconds": 2} | settings)
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = Client(self.port, self.settings.api_keys)
        self.server = Server(llm, self.settings)
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def served(self):
        return self.server._app.state.served

    def start(self) -> None:
        self._thread.start()
        until(lambda: self.server.started, "the server did not start")

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not end"

    def _run(self) -> None:
        async def work():
            self.loop = asyncio.get_running_loop()
            await self.server.serve(sockets=[self._listener])

        asyncio.run(work())


@contextmanager
def running(llm: LLM, **settings):
    """A server while the block runs; afterwards nothing of its requests may be left."""
    server = Running(llm, **settings)
    server.start()
    try:
        yield server
        until(lambda: server.served.gate.active == 0, "texts are left")
        assert all(not engine._runs for engine in server.served.ways.engines)
    finally:
        server.stop()
    pool = llm.loaded.pool
    until(lambda: pool.free_pages == pool.pages, "pages are left")
    assert (pool.promised, int(pool._wished.sum())) == (0, 0)


def until(done, complaint: str, seconds: float = 20) -> None:
    """Waits for something that is about to come."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, complaint
        time.sleep(0.01)

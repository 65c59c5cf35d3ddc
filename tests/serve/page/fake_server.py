"""A small server that speaks what the page expects of `glimpse serve`; each test says what it answers."""

from __future__ import annotations

import json
import mimetypes
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import glimpse

PAGE = Path(glimpse.__file__).parent / "serve" / "page"


@dataclass
class Reply:
    """An answer: either `body` as JSON, or `events` one after another (dicts as JSON, bytes as they are)."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    events: Iterable[Any] = ()
    pause: float = 0.0
    """Seconds before each event."""


@dataclass
class FakeServer:
    """On a free port of the loopback, for the length of a `with` block."""

    answer: Callable[[str, dict[str, Any]], Reply]
    """(path, body) -> what to reply; tests set it anew."""
    key: str | None = None
    models: list[dict[str, Any]] = field(default_factory=lambda: [model()])
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client left before its answer ended."""

    def __enter__(self) -> FakeServer:
        handler = type("Handler", (_Handler,), {"fake": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/"


def model(name="tiny", drafters=("lookup", "none", "sparse"), pacers=("entropy", "fixed")) -> dict[str, Any]:
    """An entry of `GET /v1/models`."""
    extras = {"drafters": list(drafters), "pacers": list(pacers), "drafter": "lookup", "max_context": 8192}
    return {"id": name, "object": "model", "glimpse": extras}


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer

    def do_GET(self) -> object:
        if self.path == "/v1/models":
            return self._may() and self._json(200, {"object": "list", "data": self.fake.models})
        name = "index.html" if self.path == "/" else self.path.removeprefix("/static/")
        file = (PAGE / name).resolve()
        if not (file.is_relative_to(PAGE) and file.is_file()):
            return self._json(404, {"error": {"message": f"no such path: {self.path}"}})
        return self._send(200, file.read_bytes(), {"Content-Type": mimetypes.guess_type(name)[0] or "text/plain"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._may():
            self._answer(body)

    def _answer(self, body: dict[str, Any]) -> None:
        self.fake.asked.append((self.path, body))
        reply = self.fake.answer(self.path, body)
        if reply.body is not None:
            self._json(reply.status, reply.body, reply.headers)
        else:
            self._stream(reply)

    def _may(self) -> bool:
        allowed = self.fake.key is None or self.headers.get("Authorization") == f"Bearer {self.fake.key}"
        if not allowed:
            self._json(401, {"error": {"message": "no key, or a wrong one"}})
        return allowed

    def _stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for event in reply.events:
                time.sleep(reply.pause)
                self.wfile.write(event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode())
        except OSError:
            self.fake.gone.set()

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

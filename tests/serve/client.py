"""A small HTTP client that can also misbehave."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any


class Client:
    """Requests to a port of the loopback."""

    def __init__(self, port: int, keys: Sequence[str] = ()) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {keys[0]}"} if keys else {}

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        return self.send("GET", path, None, headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        return self.send("POST", path, body, headers)

    def send(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and parsed body; a body of bytes goes as it is."""
        status, _, raw = self.raw(method, path, body, headers)
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode()

    def raw(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = body if isinstance(body, bytes | Iterator | None) else json.dumps(body).encode()
            kind = {"Content-Type": "application/json"} if method == "POST" else {}
            connection.request(method, path, data, {**kind, **self._headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Every event but the last, which must be [DONE]. Closing it drops the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            headers = {"Content-Type": "application/json", **self._headers}
            connection.request("POST", path, json.dumps(body | {"stream": True}).encode(), headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            lines = [b""]
            for line in answer:
                lines.append(line)
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    yield json.loads(line[6:])
            assert lines[-2].strip() == b"data: [DONE]"
        finally:
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()


def value(metrics: str, name: str, **labels: str) -> float:
    """The sum of the samples of a metric that have these labels."""
    found = re.findall(rf"^glimpse:{name}{{([^}}]*)}} (\S+)$", metrics, re.M)
    wanted = [f'{key}="{text}"' for key, text in labels.items()]
    return sum(float(number) for told, number in found if all(want in told for want in wanted))

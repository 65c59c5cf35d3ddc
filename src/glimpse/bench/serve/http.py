"""HTTP/1.1 for streamed answers, with as little work as can be: a load generator must not be what is measured."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from glimpse.errors import ArgumentError

_LIMIT = 1 << 20
"""Bytes of one line."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is."""

    host: str
    port: int
    path: str
    """What stands before `/v1`, without a slash at its end."""
    secure: bool
    key: str | None = None

    @classmethod
    def of(cls, url: str, key: str | None = None) -> Address:
        """From a URL, with or without `/v1`. Raises ArgumentError for anything but http and https."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ArgumentError(f"--url {url!r} is no address such as http://127.0.0.1:8000")
        secure = parts.scheme == "https"
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, port or (443 if secure else 80), path, secure, key)

    def head(self, method: str, path: str, length: int) -> bytes:
        """The head of a request; the connection is closed behind its answer."""
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Connection: close",
                 "Content-Type: application/json", f"Content-Length: {length}", "Accept: */*"]  # fmt: skip
        lines += [f"Authorization: Bearer {self.key}"] if self.key else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is still to come."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The `data:` events of a stream, up to [DONE]."""
        rest = b""
        async for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    if data == b"[DONE]":
                        return
                    yield json.loads(data)

    async def body(self) -> bytes:
        """All of it."""
        return b"".join([block async for block in self._blocks()])

    async def _blocks(self) -> AsyncIterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                yield await self.reader.readexactly(size)
                await self.reader.readline()
            return
        left = int(self.headers.get("content-length", 1 << 62))
        while left and (block := await self.reader.read(min(left, 1 << 16))):
            left -= len(block)
            yield block


@asynccontextmanager
async def request(
    address: Address, method: str, path: str, body: dict[str, Any] | None = None
) -> AsyncIterator[Answer]:
    """Sends a request; leaving the block closes its connection. Raises OSError, EOFError or ValueError."""
    secure = ssl.create_default_context() if address.secure else None
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=secure, limit=_LIMIT)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(address.head(method, path, len(data)) + data)
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        yield Answer(status, await _headers(reader), reader)
    except IndexError:
        raise EOFError("the server closed the connection") from None
    finally:
        writer.close()


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    found = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        found[name.strip().lower()] = value.strip()
    return found

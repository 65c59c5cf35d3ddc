"""What stands before every route: keys, the size of bodies, the access log. Plain ASGI: nothing hides a disconnect."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glimpse.serve.errors import ApiError

ACCESS = logging.getLogger("glimpse.access")
_OPEN = ("/", "/health")
_STATIC = "/static/"
_DISCARDED, _DISCARDING = 8, 5.0
"""How much of a body that is too large is read to its end all the same: times the limit, and seconds."""


class Keys:
    """Asks for `Authorization: Bearer KEY`. The page and /health are open: the page asks its user for a key."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        # Digests are of one length, so comparing takes the same time whatever was sent.
        self._digests = [sha256(key.encode()).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through, or answers 401."""
        if scope["type"] != "http" or self._open(scope) or self._known(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        refusal = ApiError(401, "give one of this server's API keys: Authorization: Bearer KEY", code="invalid_api_key",
                           headers={"WWW-Authenticate": "Bearer"})  # fmt: skip
        await refusal.response()(scope, receive, send)

    @staticmethod
    def _open(scope: Scope) -> bool:
        path = scope["path"]
        return path in _OPEN or path.startswith(_STATIC) or scope["method"] == "OPTIONS"

    def _known(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = sha256(given.strip().encode("latin-1")).digest()
        found = False
        for known in self._digests:  # all of them, so that time does not tell which
            found |= hmac.compare_digest(known, digest)
        return found and scheme.lower() == "bearer"


class _TooLarge(Exception):
    """More of a body has come than is taken."""


class BodyLimit:
    """Answers 413 to a body of more than so many bytes, before it is read whole."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through, or answers 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "0")
        if not told.isdecimal() or int(told[:20]) > self._most:
            await self._refuse(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._most:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARDING):
                await _discard(receive, _DISCARDED * self._most)
        refusal = ApiError(413, f"the body may have at most {self._most} bytes", headers={"Connection": "close"})
        await refusal.response()(scope, receive, send)


async def _discard(receive: Receive, most: int) -> None:
    """Reads what is left of a body that is not too long: a client that is cut off while it sends hears no answer."""
    got = 0
    while got < most:
        message = await receive()
        got += len(message.get("body", b""))
        if not message.get("more_body"):
            return


class AccessLog:
    """A line a request: who, what, status, seconds. No query, no body: they may hold prompts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through, and notes how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            client = (scope.get("client") or ("-",))[0]
            path, seconds = ascii(scope["path"])[1:-1][:200], time.perf_counter() - begun
            ACCESS.info("%s %s %s %s %.3fs", client, scope["method"], path, status or "-", seconds)

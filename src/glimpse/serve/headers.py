"""What browsers are told with every answer: not to guess its type, not to show it within another page."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
_POLICY = b"content-security-policy"
# The page's own policy is in its head, where everything but this can be said.
_PAGE = (*_ALWAYS, (_POLICY, b"frame-ancestors 'none'"))
_OTHER = (*_ALWAYS, (_POLICY, b"default-src 'none'; frame-ancestors 'none'"))


class SafeHeaders:
    """Adds them to whatever is answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        added = _PAGE if path == "/" or path.startswith("/static/") else _OTHER

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, told)

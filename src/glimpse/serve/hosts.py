"""By which names a server on this machine's own addresses may be called.

A page of another origin can have its own name resolve to 127.0.0.1 once it is loaded (DNS rebinding): for the browser
the server is then that page's own, and no CORS rule stands between. Its requests still carry that name as their host.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from glimpse.sampling.checks import shown
from glimpse.serve.errors import ApiError


def is_loopback(host: str) -> bool:
    """Whether an address or name to listen at is reached from this machine alone."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


class Hosts:
    """Answers 403 to a request whose host is neither an address, nor a localhost, nor one of these names."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through, or answers 403."""
        if scope["type"] != "http" or self._known(host := _host(Headers(scope=scope).get("host", ""))):
            await self._app(scope, receive, send)
            return
        refusal = ApiError(403, f"host {shown(host)}: not a name of this server; start it with --allow-host NAME, or "
                                "with --api-key", param="Host")  # fmt: skip
        await refusal.response()(scope, receive, send)

    def _known(self, host: str) -> bool:
        # Every browser names a host, and no name is an address that is written out.
        return (
            not host
            or host in self._names
            or host == "localhost"
            or host.endswith(".localhost")
            or _address(host) is not None
        )


def _host(told: str) -> str:
    """A Host header without its port."""
    host = told.strip().lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).rstrip(".")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None

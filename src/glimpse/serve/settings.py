"""How a server behaves; what it decodes with are options of `LLM`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from glimpse.errors import ArgumentError
from glimpse.sampling.checks import Integer, Number

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\s]+")
"""What browsers send as an origin, or any of them."""
_NAME = re.compile(r"[^\s/:@?#]+")
_POSITIVE = Number(0, open_low=True)
_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "port": Integer(0, 65535),
    "max_waiting": Integer(0),
    "max_body": Integer(1),
    "max_ways": Integer(1, 16),
    "request_seconds": _POSITIVE,
    "body_seconds": _POSITIVE,
    "drain_seconds": Number(0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeSettings:
    """Raises ArgumentError for a value that is out of range."""

    name: str
    """The model's name in the API."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free one."""
    api_keys: tuple[str, ...] = ()
    """Any of them opens the API; none: it is open."""
    allow_origins: tuple[str, ...] = ()
    """Web origins whose pages may call the API (CORS); none: only the server's own page."""
    allow_hosts: tuple[str, ...] = ()
    """Names besides localhost by which a server without keys at a loopback address may be called (see `Hosts`)."""
    max_waiting: int = 64
    """Texts that may wait for a row; a request for more than there is room for gets a 429."""
    max_body: int = 8 << 20
    """Bytes of a request's body."""
    max_ways: int = 3
    """Ways of decoding (drafter, pacer, acceptance, draft length) that are kept ready at once, the server's own
    included."""
    request_seconds: float = 600.0
    """A request that takes longer is ended."""
    body_seconds: float = 30.0
    """A body that takes longer to arrive is refused. A head that does, and a reader who falls behind for so long, are
    cut off."""
    drain_seconds: float = 30.0
    """On SIGTERM requests have so long to finish; then they are handed back as far as they have come."""
    cold_start: bool = False
    """Whether to leave to the first requests what would be made ready for them: compiled loops, and on a GPU kernels
    and graphs, of the server's own way and of others that requests name."""
    allow_lossy: bool = False
    """Whether a request may ask for a drafter or acceptance rule that changes the text."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if any(not key or not key.isascii() for key in self.api_keys):
            raise ArgumentError("an API key must be at least one ASCII character")
        self._check_names()

    def _check_names(self) -> None:
        if not self.name.strip():
            raise ArgumentError(f"name must have a letter or more, not {self.name!r}")
        for origin in self.allow_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ArgumentError(f"allow_origin {origin!r}: give SCHEME://HOST or SCHEME://HOST:PORT, no path")
        for host in self.allow_hosts:
            if not _NAME.fullmatch(host):
                raise ArgumentError(f"allow_host {host!r}: give a host name alone, without scheme, port or path")

    def to_json(self) -> dict[str, object]:
        """All but the keys, of which only the number is told."""
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"api_keys": len(self.api_keys)}

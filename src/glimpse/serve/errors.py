"""Errors in the form of the OpenAI API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from glimpse.errors import ArgumentError, GlimpseError, NoRoom
from glimpse.sampling.checks import shown

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """What a client is told instead of an answer."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, object]:
        """The body."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """The whole answer. ASCII alone: a message may quote what no encoding can hold."""
        return Response(json.dumps(self.to_json()), self.status, self.headers, "application/json")


def refused(param: str, value: object, reason: str) -> ApiError:
    """The 400 that names an option, its value and what would be right."""
    return ApiError(400, f"{param} {shown(value)}: {reason}", param=param)


def busy(message: str, seconds: int, *, status: int = 429) -> ApiError:
    """Not now: come back in so many seconds."""
    return ApiError(status, message, code="busy", headers={"Retry-After": str(seconds)})


def as_api_error(error: Exception) -> ApiError:
    """What the client is told of an error of the engine; the details of an unforeseen one stay in the server's log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ArgumentError):
        return ApiError(400, str(error), param=_param(str(error)))
    if isinstance(error, NoRoom):
        return busy(str(error), 1, status=503)
    if isinstance(error, GlimpseError):
        return ApiError(500, str(error))
    return ApiError(500, "the server failed at this request; its log says why")


def _param(message: str) -> str | None:
    """Messages of options begin with their name."""
    first = message.split(" ", 1)[0].rstrip(":")
    first = "response_format" if first == "grammar" else first
    return first if first.isidentifier() and ("_" in first or first in ("seed", "stop", "n", "temperature")) else None

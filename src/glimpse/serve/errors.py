"""Errors in the form of the OpenAI API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from starlette.responses import Response

from glimpse.errors import ArgumentError, GlimpseError, NoRoom
from glimpse.sampling.checks import shown
from glimpse.sampling.params import CHECKS

_RENAMED = {"draft_tokens": "max_draft", "drafters": "drafter", "grammar": "response_format", "pacers": "pacer"}
"""What options are called inside, and in the API."""
_BEFORE = re.compile(r"^(the|each( \w+)* of) ")
_OPTIONS = {*CHECKS, *_RENAMED.values(), "acceptance", "lossy", "prompt"}
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


def unknown_model(asked: str, name: str) -> ApiError:
    """The 404 of a model that is not served."""
    return ApiError(404, f"model {ascii(asked)[:100]}: this server has {name!r}", param="model", code="model_not_found")


def as_api_error(error: Exception) -> ApiError:
    """What the client is told of an error of the engine; the details of an unforeseen one stay in the server's log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ArgumentError):
        return _refusal(str(error))
    if isinstance(error, NoRoom):
        return busy(str(error), 1, status=503)
    if isinstance(error, GlimpseError):
        return ApiError(500, str(error))
    return ApiError(500, "the server failed at this request; its log says why")


def _refusal(message: str) -> ApiError:
    """The 400 of a message that begins with an option's name, if it does, told under the API's name of it."""
    first = _BEFORE.sub("", message).split(" ", 1)[0].rstrip(":")
    param = _RENAMED.get(first, first)
    if first in _RENAMED:
        message = param + message.removeprefix(first)
    return ApiError(400, message, param=param if param in _OPTIONS else None)

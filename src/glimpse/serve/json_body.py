"""A request's body to a checked model; whatever is wrong with it is one 4xx that says so."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from glimpse.sampling.checks import shown
from glimpse.serve.errors import ApiError

Model = TypeVar("Model", bound=BaseModel)
_DEEP = 64
"""Levels of a body: more than any schema in use has, and few enough for every library that walks it."""
_BRANCH = re.compile(r"str|int|(list|dict|constrained|function)\W.*")
"""What pydantic says after a field's name where it may be of several kinds: which kind it tried."""
_NESTED = frozenset({dict, list})
_SMALL = 1 << 14
"""Bytes that are read faster than another thread takes them over."""


async def read_body(request: Request, model: type[Model], seconds: float) -> Model:
    """The body as a `model`. Raises ApiError: 408 (too slow), 415 (no JSON by its type), 400 (anything else)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of another origin may send text/plain unasked, but has to ask (CORS) before it sends JSON.
    if kind != "application/json":
        raise ApiError(415, "send the body as application/json", param="Content-Type")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, f"Content-Encoding {ascii(coding)[:100]}: send the body as it is", param="Content-Encoding")
    try:
        async with asyncio.timeout(seconds):
            raw = await request.body()
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise ApiError(400, "the client went before its body had come") from None  # as the counters are told
    if len(raw) <= _SMALL:
        return checked(parsed(raw), model)
    return await asyncio.to_thread(lambda: checked(parsed(raw), model))


def parsed(raw: bytes) -> dict[str, object]:
    """A JSON object. Raises ApiError (400)."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_once)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:  # of JSON, of UTF-8, of an int with thousands of digits, of a key given twice
        raise ApiError(400, f"the body is not valid JSON: {shown(str(error))}") from None
    if not isinstance(value, dict):
        raise ApiError(400, f"the body must be a JSON object, not {type(value).__name__}")
    if _depth(value) > _DEEP:
        raise ApiError(400, f"the body is nested more than {_DEEP} levels deep")
    return value


def checked(value: dict[str, object], model: type[Model]) -> Model:
    """A model of an object. Raises ApiError (400) naming the first field that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _as_api_error(error) from None


def _as_api_error(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False)[0]
    field, *inner = first["loc"] or ("body",)
    name = ".".join(str(part) for part in (field, *inner) if part is field or not _BRANCH.fullmatch(str(part)))
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"{shown(name)}: this server knows no such option", param=_ascii(name))
    if first["type"] == "missing":
        return ApiError(400, f"{name} is missing", param=name)
    message = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{_ascii(name)}: {message}, not {shown(first['input'])}", param=_ascii(name))


def _ascii(text: str) -> str:
    return ascii(text)[1:-1][:200]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object. Raises ValueError for a key given twice: one of its values would be ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {ascii(twice)[:100]} is there twice")
    return found


def _depth(value: object) -> int:
    """Levels of lists and objects."""
    level, depth = [value], 0
    while level:
        inner: list[Any] = [entry for entry in level if type(entry) in _NESTED]  # a prompt has thousands of numbers
        level = [child for entry in inner for child in (entry.values() if isinstance(entry, dict) else entry)]
        depth += bool(inner)
    return depth

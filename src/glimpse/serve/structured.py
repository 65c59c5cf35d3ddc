"""`response_format` to what a text must be (`SamplingParams.grammar`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from glimpse.serve.errors import refused

Grammar = Mapping[str, Any]


def grammar_of(wanted: Mapping[str, Any] | None) -> Grammar | None:
    """The grammar of a `response_format`; None where any text will do.

    OpenAI's types, and two more: `{"type": "regex", "pattern": ...}` and `{"type": "grammar", "grammar": ...}`. Raises
    ApiError naming what is wrong.
    """
    if wanted is None:
        return None
    make = _KINDS.get(wanted.get("type"))
    if make is None:
        raise refused("response_format.type", wanted.get("type"), f"one of {', '.join(map(str, _KINDS))}")
    return make(wanted)


def _schema(wanted: Mapping[str, Any]) -> Grammar:
    _only(wanted, "type", "json_schema")
    inner = wanted.get("json_schema")
    if not isinstance(inner, Mapping) or not isinstance(inner.get("schema"), Mapping):
        raise refused("response_format.json_schema", inner, 'an object with a "schema" that is one too')
    _only(inner, "name", "description", "schema", "strict")
    return {"json_schema": inner["schema"]}


def _text_under(key: str, kind: str) -> Callable[[Mapping[str, Any]], Grammar]:
    def make(wanted: Mapping[str, Any]) -> Grammar:
        _only(wanted, "type", key)
        if not isinstance(wanted.get(key), str) or not wanted[key]:
            raise refused(f"response_format.{key}", wanted.get(key), "a string that is not empty")
        return {kind: wanted[key]}

    return make


def _none(wanted: Mapping[str, Any]) -> None:
    _only(wanted, "type")


def _object(wanted: Mapping[str, Any]) -> Grammar:
    _only(wanted, "type")
    return {"json_schema": {"type": "object"}}


def _only(given: Mapping[str, Any], *known: str) -> None:
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        raise refused("response_format", unknown, f"no such key is known here; known: {', '.join(known)}")


_KINDS: Mapping[Any, Callable[[Mapping[str, Any]], Grammar | None]] = {
    "text": _none,
    "json_object": _object,
    "json_schema": _schema,
    "regex": _text_under("pattern", "regex"),
    "grammar": _text_under("grammar", "ebnf"),
}

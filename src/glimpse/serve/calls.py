"""Calls of tools in what a model writes: `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, or forced JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from glimpse.serve.tools import Tools

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
Json = dict[str, Any]


@dataclass(slots=True)
class Found:
    """What a piece of text brings: text to be shown, and (parts of) calls as a delta has them."""

    content: str = ""
    calls: list[Json] = field(default_factory=list)


class Reader(Protocol):
    """Reads one answer, piece by piece."""

    def feed(self, text: str) -> Found:
        """The next piece."""

    def finish(self) -> Found:
        """What was held back until the end."""


def reader_of(tools: Tools) -> Reader:
    """Reads answers to a request with these tools."""
    if tools.forced:
        return ForcedCall(tools.forced)
    if tools.required:
        return CallList()
    return TaggedCalls() if tools.offered else Plain()


class Plain:
    """All of it is text."""

    def feed(self, text: str) -> Found:
        """The text."""
        return Found(text)

    def finish(self) -> Found:
        """Nothing."""
        return Found()


class ForcedCall:
    """All of it is the arguments of one call, told as they come."""

    def __init__(self, name: str) -> None:
        self._name, self._begun = name, False

    def feed(self, text: str) -> Found:
        """The next part of the arguments."""
        if not text:
            return Found()
        if self._begun:
            return Found(calls=[{"index": 0, "function": {"arguments": text}}])
        self._begun = True
        return Found(calls=[_call(0, self._name, text)])

    def finish(self) -> Found:
        """Nothing."""
        return Found()


class CallList:
    """All of it is a JSON list of calls; if it was cut off it is text."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> Found:
        """Nothing yet."""
        self._text += text
        return Found()

    def finish(self) -> Found:
        """The calls."""
        calls = _parsed(self._text)
        return Found(self._text) if calls is None else Found(calls=_numbered(calls, 0))


class TaggedCalls:
    """Text with calls between tags; what is between tags and no call stays text, tags included."""

    def __init__(self) -> None:
        self._held, self._count = "", 0

    def feed(self, text: str) -> Found:
        """What is known not to be a part of a call, and the calls that are complete."""
        self._held += text
        found = Found()
        while _OPEN in self._held:
            before, _, rest = self._held.partition(_OPEN)
            inside, closed, after = rest.partition(_CLOSE)
            if not closed:
                found.content += before
                self._held = self._held[len(before) :]
                return found
            calls = _parsed(inside)
            found.content += before if calls is not None else f"{before}{_OPEN}{inside}{_CLOSE}"
            found.calls += _numbered(calls or [], self._count)
            self._count += len(calls or [])
            self._held = after
        shown = len(self._held) - _beginning(self._held)
        found.content, self._held = found.content + self._held[:shown], self._held[shown:]
        return found

    def finish(self) -> Found:
        """A call whose closing tag is missing counts if it is whole; anything else was text."""
        held, self._held = self._held, ""
        calls = _parsed(held.removeprefix(_OPEN)) if held.startswith(_OPEN) else None
        return Found(held) if calls is None else Found(calls=_numbered(calls, self._count))


def _beginning(text: str) -> int:
    """How many characters at the end may be the beginning of an opening tag."""
    return next((size for size in range(len(_OPEN) - 1, 0, -1) if text.endswith(_OPEN[:size])), 0)


def _parsed(text: str) -> list[tuple[str, str]] | None:
    """(name, arguments as JSON text) of one call or a list of them; None if it is neither."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    calls = []
    for entry in value if isinstance(value, list) else [value]:
        name = entry.get("name") if isinstance(entry, dict) else None
        arguments = entry.get("arguments", {}) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not isinstance(arguments, dict | str):
            return None
        calls.append((name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)))
    return calls or None


def _numbered(calls: Sequence[tuple[str, str]], first: int) -> list[Json]:
    return [_call(first + place, *call) for place, call in enumerate(calls)]


def _call(index: int, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}

"""Messages of the API as chat templates take them: a role and a text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from glimpse.serve.errors import refused

_ROLES = ("system", "developer", "user", "assistant", "tool")
_KNOWN = ("role", "content", "name", "refusal", "tool_calls", "tool_call_id")


def settled(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Parts of a content are joined, "developer" is the template's "system". Raises ApiError naming what is wrong."""
    if not messages:
        raise refused("messages", messages, "give at least one message")
    return [_message(index, message) for index, message in enumerate(messages)]


def _message(index: int, message: Mapping[str, Any]) -> dict[str, Any]:
    where = f"messages[{index}]"
    role = message.get("role")
    if role not in _ROLES:
        raise refused(f"{where}.role", role, f"one of {', '.join(_ROLES)}")
    unknown = next((key for key in message if key not in _KNOWN), None)
    if unknown is not None:
        raise refused(f"{where}", unknown, "no such key of a message is known here")
    kept = {key: value for key, value in message.items() if value is not None and key != "refusal"}
    kept |= {"role": "system" if role == "developer" else role, "content": _content(where, message)}
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            _call(f"{where}.tool_calls[{place}]", call) for place, call in enumerate(_calls(where, kept))
        ]
    return kept


def _calls(where: str, message: Mapping[str, Any]) -> list[Any]:
    calls = message["tool_calls"]
    if not isinstance(calls, list) or message["role"] != "assistant":
        raise refused(f"{where}.tool_calls", calls, "a list, in messages of the assistant")
    return calls


def _call(where: str, call: object) -> dict[str, Any]:
    """A call of an earlier turn; templates take its arguments as an object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(name, str):
        raise refused(where, call, 'give {"id", "type": "function", "function": {"name", "arguments"}}')
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError, RecursionError):
        raise refused(f"{where}.function.arguments", function.get("arguments"), "a JSON text") from None
    return {**call, "function": {"name": name, "arguments": arguments}}


def _content(where: str, message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None and message.get("tool_calls"):
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refused(f"{where}.content", content, "a string or a list of text parts")
    return "".join(_part(f"{where}.content[{index}]", part) for index, part in enumerate(content))


def _part(where: str, part: object) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise refused(where, kind or part, 'only parts {"type": "text", "text": ...} can be read')
    return text

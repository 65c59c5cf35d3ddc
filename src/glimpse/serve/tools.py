"""Tools: what a request offers, whether a call is asked for, and what the text of one must be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glimpse.serve.errors import refused
from glimpse.serve.schemas import ChatBody
from glimpse.serve.structured import Grammar, grammar_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANY = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Tools:
    """The functions on offer; none: the answer is text."""

    offered: Sequence[Mapping[str, Any]] = ()
    """As the chat template takes them."""
    forced: str | None = None
    """The one function that must be called."""
    required: bool = False
    """Whether some function must be called."""
    grammar: Grammar | None = None
    """What the text must be: a list of calls if `required`, the arguments if `forced`, else what the request says."""


def tools_of(body: ChatBody, *, known: bool) -> Tools:
    """The tools of a request; `known`: whether the chat template can tell the model of them.

    Raises ApiError for what is not honoured.
    """
    functions = [_function(index, tool) for index, tool in enumerate(body.tools or ())]
    names = [function["name"] for function in functions]
    if len(set(names)) < len(names):
        raise refused("tools", names, "give every function a name of its own")
    forced = _forced(body.tool_choice, names)
    if not functions or body.tool_choice == "none":
        return Tools(grammar=grammar_of(body.response_format))
    if not known:
        raise refused("tools", names, "this checkpoint's chat template knows no <tool_call>; leave them out")
    required = body.tool_choice == "required"
    if body.response_format is not None and grammar_of(body.response_format) is not None:
        raise refused("response_format", body.response_format, "not beside tools; tool_choice 'none' leaves them out")
    if not (forced or required):
        _refuse_unenforced(body, functions)
    grammar: Grammar | None = None
    if forced:
        grammar = {"json_schema": functions[names.index(forced)].get("parameters") or _ANY}
    elif required:
        grammar = {"json_schema": _calls(functions, many=body.parallel_tool_calls is not False)}
    return Tools(body.tools or (), forced, required, grammar)


def _function(index: int, tool: Mapping[str, Any]) -> Mapping[str, Any]:
    where = f"tools[{index}]"
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping) or set(tool) - {"type", "function"}:
        raise refused(where, tool.get("type"), 'give {"type": "function", "function": {"name": ...}}')
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused(f"{where}.function.name", name, "letters, digits, _ and -, at most 64")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise refused(f"{where}.function.parameters", parameters, "a JSON schema")
    unknown = next((key for key in function if key not in ("name", "description", "parameters", "strict")), None)
    if unknown is not None:
        raise refused(f"{where}.function", unknown, "no such key is known here")
    return function


def _forced(choice: str | Mapping[str, Any] | None, names: Sequence[str]) -> str | None:
    if choice in (None, "none", "auto", "required"):
        if choice in ("auto", "required") and not names:
            raise refused("tool_choice", choice, "there are no tools to choose from")
        return None
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(choice, Mapping) or choice.get("type") != "function" or name not in names:
        raise refused("tool_choice", choice, f"'none', 'auto', 'required', or one function of {list(names)}")
    return str(name)


def _refuse_unenforced(body: ChatBody, functions: Sequence[Mapping[str, Any]]) -> None:
    """Where the model may choose, its text is free, so nothing can be promised of it."""
    strict = next((function["name"] for function in functions if function.get("strict")), None)
    hint = "only with tool_choice 'required' or a function, which make the text a call"
    if strict is not None:
        raise refused("strict", strict, hint)
    if body.parallel_tool_calls is False:
        raise refused("parallel_tool_calls", False, hint)


def _calls(functions: Sequence[Mapping[str, Any]], *, many: bool) -> dict[str, Any]:
    """The schema of a list of calls; definitions go to the root, where references look for them."""
    kinds, shared = [], dict[str, dict[str, Any]]()
    for function in functions:
        parameters = dict(function.get("parameters") or _ANY)
        for place in ("$defs", "definitions"):
            own = parameters.pop(place, {})
            clash = next((name for name in own if shared.get(place, {}).get(name, own[name]) != own[name]), None)
            if clash is not None:
                raise refused("tools", clash, f"two functions have different {place} of that name")
            if own:
                shared.setdefault(place, {}).update(own)
        properties = {"name": {"const": function["name"]}, "arguments": parameters}
        kinds.append(
            {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        )
    most = {} if many else {"maxItems": 1}
    return {"type": "array", "items": {"anyOf": kinds}, "minItems": 1, **most, **shared}

"""JSON schemas: what of them a mask over tokens cannot enforce is refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from glimpse.errors import ArgumentError

_UNENFORCED = (
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if", "maxContains", "minContains",
    "multipleOf", "not", "oneOf", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
)  # fmt: skip
"""Keywords that xgrammar reads past, or takes more loosely than they are meant."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
"""Keywords whose value has schemas under names of the user's choice."""
_VALUES = ("enum", "const", "default", "examples")
"""Keywords whose value is no schema."""


def refuse_unenforced(schema: Any) -> None:
    """Raises ArgumentError naming the first keyword that would not hold for every text."""
    for part in _parts(schema):
        for word in _UNENFORCED:
            if part.get(word) not in (None, False):
                hint = "; use anyOf" if word == "oneOf" else ""
                raise ArgumentError(f"grammar: {word} of a JSON schema cannot be enforced token by token{hint}")
        if len(part.get("allOf") or ()) > 1:
            raise ArgumentError("grammar: allOf of several JSON schemas cannot be enforced; write them as one")


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema within a schema, itself included."""
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += part
        elif isinstance(part, Mapping):
            yield part
            for word, value in part.items():
                if word in _NAMED and isinstance(value, Mapping):
                    left += value.values()
                elif word not in _VALUES:
                    left.append(value)

"""JSON schemas: what of them a mask over tokens cannot enforce is refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from glimpse.errors import ArgumentError
from glimpse.sampling.patterns import refuse_overlooked

Schema = Mapping[str, Any]
LONGEST_PATTERN = 4 << 10
"""Characters of a regular expression, within a schema or alone."""
_OPTIONAL = 500
"""Properties of one object that need not be there: the compiler's work grows with their cube, a minute for 2,000."""
_UNENFORCED = (
    "$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if",
    "maxContains", "minContains", "multipleOf", "not", "oneOf", "then", "unevaluatedItems", "unevaluatedProperties",
    "uniqueItems",
)  # fmt: skip
"""Keywords that xgrammar reads past, or takes more loosely than they are meant."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
"""Keywords whose value has schemas under names of the user's choice."""
_VALUES = ("enum", "const", "default", "examples")
"""Keywords whose value is no schema."""
_CHOICES = ("type", "anyOf", "allOf")
"""Keywords of which one must come true. xgrammar takes an empty list for anything, or for nothing."""
_LENGTHS = ("minLength", "maxLength")
_UNTYPED = (
    *_LENGTHS, "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems",
    "maxItems", "required", "minProperties", "maxProperties", "propertyNames", "patternProperties",
)  # fmt: skip
"""Keywords that xgrammar reads past where it does not see what they are of."""
_TYPING = ("type", "properties", "additionalProperties", "items", "prefixItems")
_WHOLE = ("$ref", "anyOf", "allOf", "enum", "const")
"""Keywords beside which xgrammar reads nothing else."""
_BESIDE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_WHOLE, (*_UNTYPED, *_TYPING[1:])),
    "pattern": _LENGTHS,
    "format": _LENGTHS,
    "propertyNames": ("properties", "patternProperties", "required"),
    "patternProperties": ("properties", "required"),
}
"""Keywords, each with those that xgrammar reads past beside it."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),),
    "array": (list,), "object": (dict,),
}  # fmt: skip


def refuse_unenforced(schema: Any) -> None:
    """Raises ArgumentError naming the first keyword that would not hold for every text."""
    for part in _parts(schema):
        for word in _UNENFORCED:
            if part.get(word) not in (None, False):
                hint = "; use anyOf" if word == "oneOf" else ""
                raise _unenforced(word, f"cannot be enforced token by token{hint}")
        for word in _CHOICES:
            if part.get(word) == []:
                raise _unenforced(word, "must not be empty")
        if len(part.get("allOf") or ()) > 1:
            raise ArgumentError("grammar: allOf of several JSON schemas cannot be enforced; write them as one")
        if not str(part.get("$ref", "#")).startswith("#"):
            raise _unenforced("$ref", "must point into the schema itself (#/...): nothing is fetched")
        _refuse_overlooked(part)
        _refuse_missing(part)
        _refuse_many(part)
        for pattern in _patterns(part):
            refuse_overlooked(pattern)
        _refuse_other_types(part)


def _refuse_overlooked(part: Schema) -> None:
    """Keywords that would hold elsewhere, but not where they stand."""
    for word, overlooked in _BESIDE.items():
        other = next((one for one in overlooked if one in part), None) if word in part else None
        if other is not None:
            raise _unenforced(other, f"cannot be enforced beside {word}; write one without the other")
    if not any(word in part for word in _TYPING):
        untyped = next((word for word in _UNTYPED if word in part), None)
        if untyped is not None:
            raise _unenforced(untyped, "cannot be enforced without a type beside it")


def _refuse_missing(part: Schema) -> None:
    """Properties that must be there, of which nothing is said."""
    known, wanted = part.get("properties"), part.get("required")
    for name in wanted if isinstance(wanted, list) else ():
        if not isinstance(known, Mapping) or name not in known:
            raise ArgumentError(f"grammar: required {ascii(name)[:100]} of a JSON schema is not among its properties")


def _refuse_many(part: Schema) -> None:
    """More properties that may be left out, or a longer pattern, than can be compiled while somebody waits."""
    known, wanted = part.get("properties"), part.get("required")
    there = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    optional = len(known.keys() - there) if isinstance(known, Mapping) else 0
    if optional > _OPTIONAL:
        raise _unenforced("properties", f"are too many: {optional:,} may be left out, and {_OPTIONAL} are the most")
    longest = max((len(text) for text in _patterns(part)), default=0)
    if longest > LONGEST_PATTERN:
        raise _unenforced("pattern", f"has {longest:,} characters, and {LONGEST_PATTERN:,} are the most")


def _patterns(part: Schema) -> list[str]:
    named = part.get("patternProperties")
    found = [part.get("pattern"), *(named if isinstance(named, Mapping) else ())]
    return [text for text in found if isinstance(text, str)]


def _refuse_other_types(part: Schema) -> None:
    """A type beside what xgrammar reads instead: values and alternatives must be of it."""
    beside = next((word for word in _WHOLE if word in part), None)
    told = part.get("type")
    names = told if isinstance(told, list) else [told]
    if beside is None or told is None or _agree(part, beside, names):
        return
    raise _unenforced("type", f"{ascii(told)[:100]} cannot be enforced beside {beside}")


def _agree(part: Schema, beside: str, names: list[Any]) -> bool:
    value = part[beside]
    if beside == "anyOf":
        return isinstance(value, list) and all(isinstance(way, Mapping) and way.get("type") in names for way in value)
    kinds = tuple(kind for name in names for kind in _TYPES.get(str(name), ()))
    values = {"enum": value, "const": [value]}.get(beside)
    # A bool is an int to Python alone.
    return isinstance(values, list) and all(
        isinstance(one, kinds) and (bool in kinds or not isinstance(one, bool)) for one in values
    )


def _unenforced(word: str, why: str) -> ArgumentError:
    return ArgumentError(f"grammar: {word} of a JSON schema {why}")


def _parts(schema: Any) -> Iterator[Schema]:
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

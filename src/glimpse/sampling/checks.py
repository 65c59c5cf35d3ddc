"""Checks of single option values. Each returns the value in its settled form or raises one clear ArgumentError."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from glimpse.errors import ArgumentError

_LONGEST = 80
"""Characters of a wrong value that a message shows."""


def refuse(name: str, value: object, wanted: str) -> ArgumentError:
    """The error of an option that is out of range, naming option, value and what is legal."""
    return ArgumentError(f"{name} must be {wanted}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as messages show it: on one line, and short."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes out no int of more than 4300 digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@dataclass(frozen=True, slots=True)
class Number:
    """A finite real number between two bounds; `zero` says what 0 means where it is legal below the lower one."""

    low: float
    high: float = math.inf
    open_low: bool = False
    zero: str = ""

    @property
    def wanted(self) -> str:
        """The legal range in words."""
        lower = f"> {self.low:g}" if self.open_low else f">= {self.low:g}"
        zero = f"0 ({self.zero}) or " if self.zero else ""
        return f"{zero}a finite number {lower}" + ("" if math.isinf(self.high) else f" and <= {self.high:g}")

    def __call__(self, name: str, value: Any) -> float:
        """`value` as a float."""
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refuse(name, value, self.wanted)
        try:
            number = float(value)
        except OverflowError as error:
            raise refuse(name, value, self.wanted) from error
        if not math.isfinite(number) or not self._legal(number):
            raise refuse(name, value, self.wanted)
        return number

    def _legal(self, number: float) -> bool:
        if self.zero and number == 0:
            return True
        return self.low <= number <= self.high and not (self.open_low and number == self.low)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two bounds; `note` says what its special values mean."""

    low: int
    high: int | None = None
    note: str = ""

    def __call__(self, name: str, value: Any) -> int:
        """`value` as an int."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < self.low or (self.high is not None and value > self.high):
            upper = "" if self.high is None else f" and <= {self.high}"
            raise refuse(name, value, f"a whole number >= {self.low}{upper}{self.note}")
        return int(value)


class Choice:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __call__(self, name: str, value: Any) -> str:
        """`value` as it is."""
        if value not in self._words:
            raise refuse(name, value, " or ".join(map(repr, self._words)))
        return str(value)


def flag(name: str, value: Any) -> bool:
    """True or False, nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise refuse(name, value, "True or False")
    return value


def text(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise refuse(name, value, "a string")
    return value


def _items(name: str, value: Any, wanted: str) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise refuse(name, value, wanted)
    return list(value)


def strings(name: str, value: Any) -> tuple[str, ...]:
    """One string or several, none of them empty."""
    wanted = "a non-empty string or a list of them"
    items = [value] if isinstance(value, str) else _items(name, value, wanted)
    if not all(isinstance(item, str) and item for item in items):
        raise refuse(name, value, wanted)
    return tuple(items)


def token_ids(name: str, value: Any) -> tuple[int, ...]:
    """A list of token ids."""
    check = Integer(0, note=" (a token id)")
    return tuple(check(f"each of {name}", item) for item in _items(name, value, "a list of token ids"))


def words(name: str, value: Any) -> tuple[str | tuple[int, ...], ...]:
    """Words given as text or as lists of token ids, none of them empty."""
    wanted = "a list of non-empty strings or lists of token ids"
    settled = [item if isinstance(item, str) else token_ids(name, item) for item in _items(name, value, wanted)]
    if not all(settled):
        raise refuse(name, value, wanted)
    return tuple(settled)


def biases(name: str, value: Any) -> dict[int, float]:
    """A mapping from token ids (or their decimal text, as JSON has it) to finite numbers."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, "a mapping from token ids to numbers")
    keyed = {int(key) if isinstance(key, str) and key.isdecimal() else key: bias for key, bias in value.items()}
    ids, finite = Integer(0, note=" (a token id)"), Number(-1e9, 1e9)
    return {ids(f"each key of {name}", key): finite(f"{name}[{shown(key)}]", bias) for key, bias in keyed.items()}


def grammar(name: str, value: Any) -> dict[str, Any]:
    """One of a JSON schema, a regular expression and a grammar, under its name."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, source),) = value.items()
        if kind == "json_schema" and isinstance(source, Mapping) and _is_json(source):
            return {kind: dict(source)}
        if kind in ("regex", "ebnf") and isinstance(source, str) and source:
            return {kind: source}
    raise refuse(name, value, '{"json_schema": an object}, {"regex": a string} or {"ebnf": a string}')


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def inside_vocabulary(name: str, ids: Iterable[int], vocab_size: int) -> None:
    """Raises ArgumentError when a token id is not in the vocabulary."""
    for token in ids:
        if token >= vocab_size:
            raise refuse(f"each token id of {name}", token, f"below the vocabulary size {vocab_size}")

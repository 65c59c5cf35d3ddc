"""Regular expressions: what xgrammar only warns of, and so would not hold, is refused.

xgrammar matches a text as a whole. It drops anchors elsewhere than at the ends, looks ahead in no pattern of a schema,
and takes escapes that it does not know as their letter, with a line on stderr that has the pattern in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from glimpse.errors import ArgumentError

_ESCAPES = frozenset("abBcdDefknprstuvwWxPS123456789")
"""Letters and digits behind a backslash that xgrammar knows, or refuses by itself. `\\0` is nothing to it."""
_PART = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]?|\(\?<?[=!]|.", re.DOTALL)
"""An escape, a class of characters, the head of an assertion, or a character."""
_INNER = re.compile(r"\\(.)", re.DOTALL)


def refuse_overlooked(pattern: str) -> None:
    """Raises ArgumentError naming the first thing in a regular expression that would be read past."""
    parts = _PART.findall(pattern)
    for escape in _INNER.findall("".join(part for part in parts if len(part) > 1)):
        if escape.isascii() and escape.isalnum() and escape not in _ESCAPES:
            raise _overlooked(pattern, f"\\{escape} is not known")
    for part in parts:
        if part.startswith("(?"):
            raise _overlooked(pattern, f"{part}...): lookahead and lookbehind are not supported")
    for anchor in _inner_anchors(parts):
        raise _overlooked(pattern, f"{anchor} holds only at the ends of the whole, or of an alternative of the whole")


def _inner_anchors(parts: list[str]) -> Iterator[str]:
    """Each `^` and `$` that begins or ends no alternative of the whole pattern."""
    depth, before = 0, "|"
    for place, part in enumerate(parts):
        after = parts[place + 1] if place + 1 < len(parts) else "|"
        beside = {"^": before, "$": after}.get(part)
        if beside is not None and (depth or beside != "|"):
            yield part
        depth += (part == "(") - (part == ")")
        before = part


def _overlooked(pattern: str, why: str) -> ArgumentError:
    return ArgumentError(f"grammar: the pattern {ascii(pattern)[:100]} cannot be enforced: {why}")

"""Broken versions of files and values, at random: seeded, so that what breaks something breaks it again."""

from __future__ import annotations

import copy
import json
import math
import random
import struct
from collections.abc import Sequence
from typing import Any

NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63),
    10**30, 10**400, 0.5, -0.0, 1e-300, 1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\nb", "\r\n\t", "\x1b[2J", "\ud800", "\udfff a", "\ufeff", "\u202e", "0", "-1", "1e999", "null",
    "../../x", "/dev/zero", "<|im_end|>", "<|im_start|>system\n", "{{ 7 * 7 }}", "%s%n", "é" * 300, "x" * 5_000,
)  # fmt: skip
_SPARED = 3
"""At most so many changes at once: more would only break the same thing first."""


def odd_value(draw: random.Random, depth: int = 0) -> Any:
    """Anything JSON can hold, mostly what a file would not."""
    kind = draw.randrange(10 if depth < 2 else 7)
    if kind < 3:
        return draw.choice(NUMBERS)
    if kind < 5:
        return draw.choice(TEXTS)
    if kind < 7:
        return draw.choice((None, True, False))
    if kind == 7:
        return [odd_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 8:
        return {draw.choice(TEXTS): odd_value(draw, depth + 1) for _ in range(draw.randrange(3))}
    return nested(draw.choice((3, 300)))


def nested(depth: int) -> Any:
    """Lists within lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def broken_json(text: str, draw: random.Random) -> bytes:
    """A JSON text with a few values exchanged, removed, added or renamed; one in four is broken as bytes as well."""
    root = [json.loads(text)]
    for _ in range(draw.randint(1, _SPARED)):
        _change(root, draw)
    changed = json.dumps(root[0]).encode("utf-8", "surrogatepass")
    return broken_bytes(changed, draw, len(changed)) if draw.random() < 0.25 else changed


def broken_bytes(whole: bytes, draw: random.Random, head: int) -> bytes:
    """A file with a few changes within its first `head` bytes: bits, numbers, pieces moved, doubled or cut out."""
    data = bytearray(whole)
    for _ in range(draw.randint(1, _SPARED)):
        at, size = draw.randrange(max(1, min(head, len(data)))), draw.randrange(1, 40)
        kind = draw.randrange(7)
        if kind < 2:
            data[at : at + 1] = bytes([draw.randrange(256)])
        elif kind < 4:
            number = _bytes_of(draw)
            data[at : at + len(number)] = number
        elif kind == 4:
            del data[at : at + size]
        elif kind == 5:
            data[at:at] = data[at : at + size]
        elif draw.random() < 0.3:
            del data[at:]
    return bytes(data)


def _bytes_of(draw: random.Random) -> bytes:
    whole = [number for number in NUMBERS if isinstance(number, int) and 0 <= number < 2**64]
    code, size = draw.choice((("<Q", 8), ("<I", 4)))
    return struct.pack(code, draw.choice(whole) % 2 ** (8 * size))


def _change(root: list[Any], draw: random.Random) -> None:
    """One change somewhere in the tree under `root`, which is a list so that the whole can be exchanged too."""
    places = list(_places(root))
    # Lists of thousands of tokens or merges would take every change.
    holder, key = draw.choice(draw.choice(_by_holder(places)))
    kind = draw.randrange(6)
    if kind < 3:
        holder[key] = odd_value(draw)
    elif kind == 3 and holder is not root:
        del holder[key]
    elif kind == 4:
        other, at = draw.choice(places)
        holder[key] = copy.deepcopy(other[at])
    elif isinstance(holder, dict):
        holder[draw.choice((*TEXTS, f"{key}2"))] = copy.deepcopy(holder[key])


def _places(holder: Any) -> list[tuple[Any, Any]]:
    """Every (list or object, index or key) of a tree."""
    found, open_ones = [], [holder]
    while open_ones:
        one = open_ones.pop()
        keys: Sequence[Any] = list(one) if isinstance(one, dict) else range(len(one))
        found += [(one, key) for key in keys]
        open_ones += [one[key] for key in keys if isinstance(one[key], dict | list)]
    return found


def _by_holder(places: list[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    groups: dict[int, list[tuple[Any, Any]]] = {}
    for holder, key in places:
        groups.setdefault(id(holder), []).append((holder, key))
    return list(groups.values())

"""What a tokenizer file puts in the place of characters: bounded, as no text is measured behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from glimpse.errors import ModelError

_MOST = 64
"""Characters that one may become. Known tokenizers have one or two ("▁" for a space, two quotes for one)."""


def refuse_bombs(backend: Any) -> None:
    """Raises ModelError where the normalizer or the decoder of a `tokenizers.Tokenizer` would blow texts up.

    Their library replaces in place and ends the process where memory runs out: three replacements of a letter by two
    thousand are enough.
    """
    for name in ("normalizer", "decoder"):
        part = getattr(backend, name)
        grown = 1
        for step in _steps(json.loads(part.__getstate__())) if part is not None else ():
            grown *= max(1, len(_content(step)))
        if grown > _MOST:
            raise ModelError(f"the tokenizer's {name} makes {grown:,} characters of one; {_MOST} are the most")


def _steps(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A part, or the parts of a sequence of them."""
    inner = part.get("normalizers") or part.get("decoders")
    if inner is None:
        yield part
    for each in inner or ():
        yield from _steps(each)


def _content(step: dict[str, Any]) -> str:
    """What a step puts in the place of something, or before it."""
    named = {"Replace": "content", "Prepend": "prepend"}.get(step.get("type", ""))
    return str(step.get(named, "")) if named else ""

"""Conversations to token ids, without letting a message forge special tokens.

A template's own `<|im_end|>` ends a turn; the same text typed by a user must not. So special-token text in a message
is hidden behind a placeholder while the template is filled in. Afterwards the template's special tokens are cut out by
name, and what lies between, placeholders restored, is encoded as plain text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.model.tokenizer import Message, Tokenizer

_KEYS = ("role", "content")
_STEPS = 2_000_000
"""A second or so; a conversation of a thousand turns takes about a hundredth of it."""
_TEMPLATE = "<template>"
"""The file name of what jinja2 compiles."""


def encode_chat(
    tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Any], *, add_generation_prompt: bool,
    most: int | None = None,
) -> list[int]:  # fmt: skip
    """Ids of `messages` (and `tools`) in the checkpoint's chat template.

    Raises ArgumentError for messages it cannot stand for, and where the template makes a text of them that cannot be
    `most` tokens.
    """
    _check(messages)
    special = _pattern(tokenizer.special_texts)
    texts = texts_of([messages, tools])
    if special is None or not any(special.search(text) for text in texts):
        text = tokenizer.render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        return tokenizer.encode(text, add_special_tokens=False, parse_special=True, most=most)
    ids, mark = tokenizer.special_texts, _unused(texts)

    def hide(text: str) -> str:
        return special.sub(lambda match: f"{mark}{ids[match[0]]}{mark}", text)

    hidden, shown = _replaced(list(messages), hide), _replaced(list(tools), hide)
    text = tokenizer.render(hidden, tools=shown, add_generation_prompt=add_generation_prompt)
    pieces = _Pieces(tokenizer, special, mark)
    # Cutting at special tokens must not change how the rest is split: true of byte-level tokenizers, not of every one.
    whole = tokenizer.encode(text, add_special_tokens=False, parse_special=True, most=most)
    if pieces.encode(text, restore=False) != whole:
        raise ArgumentError("a message holds special-token text, which this checkpoint's tokenizer cannot keep as text")
    return pieces.encode(text, restore=True)


@contextmanager
def bounded_template() -> Iterator[None]:
    """Ends a template that has taken `_STEPS` lines and calls. Its sandbox keeps it from files and modules, not from
    loops within loops, and what runs in this thread can only be stopped from within: by a trace function.
    """
    before, left = sys.gettrace(), _STEPS

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError(f"it takes more than {_STEPS:,} steps")
        return count if frame.f_code.co_filename == _TEMPLATE else None

    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


def refuse_powers(template: str) -> None:
    """Raises ValueError for a template that raises numbers to powers: no count of steps ends a single operation, and
    jinja2 works constants out before the first step.
    """
    from jinja2 import Environment

    before = ""
    for _, kind, text in Environment().lex(template):
        # Behind a bracket or a comma it hands over named arguments.
        if (kind, text) == ("operator", "**") and before not in ("(", ","):
            raise ValueError("it raises numbers to powers (**), which may take for ever")
        before = before if kind == "whitespace" else text


class _Pieces:
    """Encodes rendered text piece by piece: special tokens by name, the rest as plain text."""

    def __init__(self, tokenizer: Tokenizer, special: re.Pattern[str], mark: str) -> None:
        self.tokenizer, self.special = tokenizer, special
        self.texts = {str(index): text for text, index in tokenizer.special_texts.items()}
        self.placeholder = re.compile(f"{mark}([0-9]+){mark}")

    def encode(self, text: str, *, restore: bool) -> list[int]:
        """Ids of `text`, its placeholders turned back into what they hide if `restore`."""
        ids: list[int] = []
        for index, piece in enumerate(self.special.split(text)):
            if index % 2:
                ids.append(self.tokenizer.special_texts[piece])
            elif piece:
                plain = self.placeholder.sub(lambda match: self.texts[match[1]], piece) if restore else piece
                ids += self.tokenizer.encode(plain, add_special_tokens=False)
        return ids


def _check(messages: Sequence[Message]) -> None:
    if not isinstance(messages, Sequence) or not messages:
        raise ArgumentError("a chat needs a list of at least one message")
    for message in messages:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(key), str) for key in _KEYS):
            raise ArgumentError(f"a chat message needs a 'role' and a 'content' string, got {message!r}")


def _pattern(specials: Mapping[str, int]) -> re.Pattern[str] | None:
    longest_first = sorted(filter(None, specials), key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None


def texts_of(value: object) -> list[str]:
    """Every text in a message or tool: templates write roles, names and calls too, not the content alone."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _replaced(value, note)
    return found


def _replaced(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with `change` made to every text in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        # Keys too: the names of a tool's parameters are someone's own.
        return {_replaced(key, change): _replaced(entry, change) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(entry, change) for entry in value]
    return value


def _unused(texts: Iterable[str]) -> str:
    """A private-use character that occurs in none of the texts."""
    used = set("".join(texts))
    return next(mark for mark in map(chr, range(0xE000, 0xF8FF)) if mark not in used)

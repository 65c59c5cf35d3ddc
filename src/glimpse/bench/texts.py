"""Real text of a given number of tokens: passages of books, and what every Python ships."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glimpse.errors import GlimpseError
from glimpse.model import Tokenizer


class NoText(GlimpseError):
    """The folder with books is not there; a suite that needs it is left out, not failed."""

    exit_code = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """The first tokens of a book from some place on."""

    book: str
    start: int
    """Character of the book at which it begins."""
    ids: tuple[int, ...]

    @property
    def digest(self) -> str:
        """Identifies the token ids in a result file."""
        return digest(self.ids)


def digest(ids: Sequence[int]) -> str:
    """The first 12 digits of the SHA-256 of token ids."""
    return hashlib.sha256(repr(list(ids)).encode()).hexdigest()[:12]


def default_folder(root: Path) -> Path:
    """`$GLIMPSE_SHARED/data/books`, else `../shared/data/books` beside the repository."""
    shared = os.environ.get("GLIMPSE_SHARED")
    return (Path(shared) if shared else root.resolve().parent / "shared") / "data" / "books"


def books(folder: Path) -> dict[str, str]:
    """The .txt files of a folder by name. Raises NoText where there are none."""
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise NoText(f"no books (*.txt) in {folder}; name a folder of long texts with --text")
    return {path.stem: path.read_text(encoding="utf-8") for path in files}


def passages(folder: Path, tokenizer: Tokenizer, tokens: int, count: int) -> list[Passage]:
    """`count` passages of exactly `tokens` tokens, from the books in turn, evenly spread over each."""
    texts = list(books(folder).items())
    each = -(-count // len(texts))
    found = []
    for index in range(count):
        name, text = texts[index % len(texts)]
        found.append(_passage(name, text, tokenizer, tokens, (index // len(texts) + 0.5) / each))
    return found


def _passage(name: str, text: str, tokenizer: Tokenizer, tokens: int, share: float) -> Passage:
    room = 8 * tokens + 64
    start = max(0, min(int(share * len(text)), len(text) - room))
    paragraph = text.find("\n\n", start)
    start = start if paragraph < 0 else paragraph + 2
    ids = tokenizer.encode(text[start : start + room])
    if len(ids) < tokens:
        raise NoText(f"{name} has only {len(ids)} tokens from character {start} on; {tokens} are wanted")
    return Passage(name, start, tuple(ids[:tokens]))


_TOPICS = ("with", "context-managers", "try", "exceptions", "raise", "compound", "for", "while", "function", "class")


def manual(tokenizer: Tokenizer, tokens: int) -> str:
    """The language reference that every Python ships (`pydoc_data.topics`), cut to `tokens` tokens."""
    from pydoc_data.topics import topics

    text = "\n\n".join([topics[name] for name in _TOPICS] + [topics[name] for name in sorted({*topics} - {*_TOPICS})])
    return tokenizer.decode(tokenizer.encode(text[: 12 * tokens])[:tokens])


def code(tokenizer: Tokenizer, tokens: int) -> str:
    """The beginning of `json/decoder.py` of this Python."""
    import json.decoder

    return tokenizer.decode(tokenizer.encode(inspect.getsource(json.decoder))[:tokens])


def everyday_prompts(tokenizer: Tokenizer, document: int = 4000) -> dict[str, list[int]]:
    """The kinds of prompts that figures for users are about; nothing but Python itself is needed."""

    def ask(text: str) -> list[int]:
        return tokenizer.chat([{"role": "user", "content": text}])

    question = "Using the text above, explain step by step what happens when a with statement is executed."
    tutorial = "Write a short tutorial about this part of the Python reference:"
    rename = "Repeat this code exactly, but with the function py_scanstring renamed to scan_text:"
    return {
        "document": ask(f"{manual(tokenizer, document)}\n\n{question}"),
        "chat": ask(f"{tutorial}\n\n{manual(tokenizer, min(450, document))}"),
        "code": tokenizer.encode(code(tokenizer, min(500, document))),
        "edit": ask(f"{rename}\n\n{code(tokenizer, min(450, document))}"),
        "free text": ask("Write a story about a lighthouse keeper who finds a letter that was never sent."),
    }

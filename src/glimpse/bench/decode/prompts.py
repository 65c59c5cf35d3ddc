"""Real text for the rows: books of a folder, ready token ids, or what every Python ships."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from glimpse.errors import ArgumentError
from glimpse.model import Tokenizer

_CHARACTERS = 8
"""Text read for each token wanted: more than a token has, so that the ids suffice."""


def shared_folder() -> Path | None:
    """`$GLIMPSE_SHARED/data`, else `../shared/data` beside the current folder; None where there is neither."""
    shared = os.environ.get("GLIMPSE_SHARED")
    folder = (Path(shared) if shared else Path.cwd().parent / "shared") / "data"
    return folder if folder.is_dir() else None


@dataclass
class Text:
    """Where prompts are taken from."""

    folder: Path | None = None
    """Every .txt file in it, by name; None: `pydoc_data.topics`, what `help()` shows."""
    ids: Path | None = None
    """An .npz file of token id arrays, taken as they are instead."""
    _read: dict[int, list[int]] = field(default_factory=dict)
    """By how many were wanted, so that a cell's prompts do not depend on the cells before it; 0: all of `ids`."""

    @property
    def label(self) -> str:
        """For the settings of a result file."""
        named = self.ids or self.folder
        return named.name if named else "pydoc_data.topics"

    def prompts(self, tokenizer: Tokenizer, context: int, rows: int) -> list[list[int]]:
        """`rows` prompts of `context` tokens, from places spread evenly over the text (they overlap where it is short).

        Raises ArgumentError where the text has fewer tokens than one prompt.
        """
        ids = self._ids(tokenizer, context * rows)
        if len(ids) < context:
            raise ArgumentError(f"{self.label} has {len(ids)} tokens of text; a prompt of {context} needs a longer one")
        starts = np.linspace(0, len(ids) - context, rows).astype(int).tolist()
        return [ids[start : start + context] for start in starts]

    def _ids(self, tokenizer: Tokenizer, wanted: int) -> list[int]:
        """All stored ids, or those of the first texts up to `wanted` (fewer where there is no more text)."""
        key = 0 if self.ids else wanted
        if key not in self._read:
            self._read[key] = _stored(self.ids, tokenizer.vocab_size) if self.ids else self._encoded(tokenizer, wanted)
        return self._read[key]

    def _encoded(self, tokenizer: Tokenizer, wanted: int) -> list[int]:
        found: list[int] = []
        for text in self._texts():
            if len(found) >= wanted:
                break
            found += tokenizer.encode(text[: _CHARACTERS * (wanted - len(found)) + 64], add_special_tokens=False)
        return found

    def _texts(self) -> Iterator[str]:
        if self.folder is None:
            from pydoc_data.topics import topics

            yield "\n\n".join(topics[name] for name in sorted(topics))
            return
        files = sorted(self.folder.rglob("*.txt"))
        if not files:
            raise ArgumentError(f"no text (*.txt) in {self.folder}; name a folder of long texts with --text")
        for path in files:
            yield path.read_text(encoding="utf-8", errors="replace")


def _stored(path: Path, vocabulary: int) -> list[int]:
    try:
        texts = np.load(path)
        ids = np.concatenate([texts[name].ravel() for name in texts.files]).astype(np.int64)
    except (OSError, ValueError, AttributeError, EOFError, BadZipFile) as error:
        raise ArgumentError(f"{path} is no .npz file of token ids, as numpy.savez writes it") from error
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocabulary:
        raise ArgumentError(f"{path} holds ids up to {ids.max()}; the tokenizer has {vocabulary}")
    found: list[int] = ids.tolist()
    return found

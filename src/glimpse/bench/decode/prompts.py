"""Real text for the rows: books of a folder, ready token ids, or what every Python ships."""

from __future__ import annotations

import os
import zlib
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

    def check(self, context: int) -> None:
        """What can be known without a tokenizer, so before a model is opened.

        Raises ArgumentError where there is no text, where a file holds no token ids, and where there is certainly less
        than one prompt of `context` tokens.
        """
        if self.ids is not None:
            self._refuse_short(len(_stored(self.ids)), context)
        elif self.folder is not None and sum(path.stat().st_size for path in _files(self.folder)) < context:
            raise ArgumentError(f"{self.label} has fewer bytes of text than a prompt of {context} has tokens")

    def prompts(self, tokenizer: Tokenizer, context: int, rows: int) -> list[list[int]]:
        """`rows` prompts of `context` tokens, from places spread evenly over the text (they overlap where it is short).

        Raises ArgumentError where the text has fewer tokens than one prompt.
        """
        ids = self._ids(tokenizer, context * rows)
        self._refuse_short(len(ids), context)
        starts = np.linspace(0, len(ids) - context, rows).astype(int).tolist()
        return [ids[start : start + context] for start in starts]

    def _refuse_short(self, count: int, context: int) -> None:
        if count < context:
            raise ArgumentError(f"{self.label} has {count} tokens of text; a prompt of {context} needs a longer one")

    def _ids(self, tokenizer: Tokenizer, wanted: int) -> list[int]:
        """All stored ids, or those of the first texts up to `wanted` (fewer where there is no more text)."""
        key = 0 if self.ids else wanted
        if key not in self._read:
            self._read[key] = self._known(tokenizer) if self.ids else self._encoded(tokenizer, wanted)
        return self._read[key]

    def _known(self, tokenizer: Tokenizer) -> list[int]:
        """The stored ids, all of which the tokenizer must have."""
        assert self.ids is not None
        ids = _stored(self.ids)
        if len(ids) and ids.max() >= tokenizer.vocab_size:
            raise ArgumentError(f"{self.ids} holds ids up to {ids.max()}; the tokenizer has {tokenizer.vocab_size}")
        found: list[int] = ids.tolist()
        return found

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
        for path in _files(self.folder):
            yield path.read_text(encoding="utf-8", errors="replace")


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.txt"))
    if not files:
        raise ArgumentError(f"no text (*.txt) in {folder}; name a folder of long texts with --text")
    return files


def _stored(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Token ids, as whole numbers from 0 on; which of them a tokenizer has is not known here."""
    try:
        texts = np.load(path)
        arrays = [texts[name].ravel() for name in texts.files]
    except (OSError, ValueError, AttributeError, EOFError, BadZipFile, NotImplementedError, zlib.error) as error:
        raise ArgumentError(f"{path} is no .npz file of token ids, as numpy.savez writes it") from error
    for own in arrays:
        if own.dtype.kind not in "iu":
            raise ArgumentError(f"{path} holds numbers of type {own.dtype}; token ids are whole numbers, such as int32")
    ids = np.concatenate([own.astype(np.int64) for own in arrays]) if arrays else np.empty(0, np.int64)
    if len(ids) and ids.min() < 0:
        raise ArgumentError(f"{path} holds ids down to {ids.min()}; token ids are 0 or more")
    return ids

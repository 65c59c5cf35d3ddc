"""What an adapter is trained on: a folder of texts, cut into sequences of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glimpse.errors import ArgumentError
from glimpse.model import Tokenizer

HELD_EVERY = 16
"""Every so manieth sequence is held out; of fewer, the last one."""
PIECE = 200_000
"""Characters that are tokenised at once."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sequences of one length."""

    train: Tensor
    """[n, length] int64"""
    held: Tensor
    """[m, length] int64: never trained on."""
    names: Sequence[str]
    """[m]: the file that each of those is of."""

    def looked_at(self, most: int) -> list[tuple[str, Tensor]]:
        """At most `most` of those held out, [1, length], spread evenly, with their files."""
        every = -(-len(self.held) // most)
        return list(zip(self.names[::every], torch.split(self.held[::every], 1), strict=True))

    @property
    def digest(self) -> str:
        """The first 12 digits of a SHA-256 of what is trained on."""
        return hashlib.sha256(self.train.numpy().tobytes()).hexdigest()[:12]


def check_folder(folder: Path) -> None:
    """Raises ArgumentError for a folder that is not there."""
    if not folder.is_dir():
        raise ArgumentError(f"no such folder of texts: {folder}")


def read_corpus(folder: Path, tokenizer: Tokenizer, length: int, vocab: int) -> Corpus:
    """All UTF-8 files of a folder and below it, and the token ids in its .npy files (what a model wrote, say).

    Each file is cut into sequences of `length` tokens; what is left at its end is left out. Raises ArgumentError for a
    folder that is not there, has no two sequences, or holds an .npy file of anything but ids that the model has. Files
    that are no UTF-8 are left out.
    """
    check_folder(folder)
    found = {
        path.relative_to(folder).as_posix(): _cut(_ids(path, tokenizer, vocab), length)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
    names = [name for name, own in found.items() for _ in own]
    all_ids = np.concatenate(list(found.values())) if found else np.zeros((0, length), np.int64)
    if len(all_ids) < 2:
        raise ArgumentError(
            f"{folder}: fewer than two sequences of {length} tokens of text; give more, or a lower length"
        )
    sequences = torch.from_numpy(all_ids)
    held = torch.arange(len(sequences)) % HELD_EVERY == HELD_EVERY // 2
    if not held.any():
        held[-1] = True
    return Corpus(sequences[~held], sequences[held], [names[place] for place in held.nonzero().flatten().tolist()])


def _ids(path: Path, tokenizer: Tokenizer, vocab: int) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False) if path.suffix == ".npy" else path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return np.zeros(0, np.int64)
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, str):
        return _stored(path, found, vocab)
    ids = [tokenizer.encode(found[begin : begin + PIECE]) for begin in range(0, len(found), PIECE)]
    return np.array([token for piece in ids for token in piece], dtype=np.int64)


def _stored(path: Path, found: object, vocab: int) -> np.ndarray:
    """[n] int64: the ids that were loaded. Raises ArgumentError where they are none of the model's."""
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu":
        what = found.dtype if isinstance(found, np.ndarray) else "an archive"
        raise ArgumentError(f"{path}: holds {what}, and token ids are whole numbers")
    for value in (found.min(initial=0), found.max(initial=0)):
        if not 0 <= int(value) < vocab:
            raise ArgumentError(f"{path}: token id {int(value)} in it, and the model has 0 to {vocab - 1}")
    return found.ravel().astype(np.int64)


def _cut(ids: np.ndarray, length: int) -> np.ndarray:
    count = len(ids) // length
    return ids[: count * length].reshape(count, length)

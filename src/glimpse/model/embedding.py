"""Token embeddings: a tensor in memory, or rows read from the checkpoint file when asked for.

A packed head cannot be looked up by row, and a second, plain copy of a tied embedding would be a fifth of a small
model's weights. So a packed tied model reads the few rows it needs from the file, which the operating system caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glimpse.errors import ModelError

Bytes = npt.NDArray[np.uint8]


class Embedding(Protocol):
    """Looks up `tokens` [N] int64, giving a fresh [N, hidden]."""

    def __call__(self, tokens: Tensor) -> Tensor: ...


class DenseEmbedding:
    """All rows in memory, [vocab, hidden]."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.weight.index_select(0, tokens)


class FileRows:
    """Rows of one matrix of a file, read as needed; nothing but the open file is held.

    `shape` is (rows, width); `decode` turns [n, row_bytes] bytes into [n, width] numbers.
    """

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], row_bytes: int, decode: Callable[[Bytes], Tensor]
    ) -> None:
        self.path, self.offset, self.row_bytes, self.decode = path, offset, row_bytes, decode
        self.rows, self.width = shape
        self._file = path.open("rb", buffering=0)

    def read(self, rows: list[int]) -> Tensor:
        """Rows by number, [len(rows), width] in the file's own dtype (float32 for quantised files)."""
        if not rows:
            return torch.empty(0, self.width)
        if not 0 <= min(rows) <= max(rows) < self.rows:
            raise IndexError(f"token ids must be 0 to {self.rows - 1}, got {min(rows)} to {max(rows)}")
        raw = np.empty((len(rows), self.row_bytes), dtype=np.uint8)
        file = self._file.fileno()
        for slot, row in enumerate(rows):
            chunk = os.pread(file, self.row_bytes, self.offset + row * self.row_bytes)
            if len(chunk) != self.row_bytes:
                raise ModelError(f"{self.path}: the file was cut short while in use; load the model again")
            raw[slot] = np.frombuffer(chunk, dtype=np.uint8)
        return self.decode(raw)


class FileEmbedding:
    """Looks rows up in the checkpoint file: some microseconds a token, against milliseconds for its forward."""

    def __init__(self, rows: FileRows, dtype: torch.dtype) -> None:
        self.rows, self.dtype = rows, dtype

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.rows.read(tokens.tolist()).to(self.dtype)

"""Recycled logits: the likeliest successors of every token at its most recent occurrence ("copy-logit")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH = 8
"""Successors kept per token (RACER, section 3)."""
_LINE = 64
"""Bytes of a cache line, as long as a token's entry."""


class SuccessorTable:
    """[ids, 8] successors and their probabilities; it grows to the greatest id written.

    Pages of memory that no written token lies on stay untouched, so a row costs little of its 64 bytes an id.
    """

    def __init__(self) -> None:
        self._allot(0)

    def write(self, tokens: NDArray[np.int64], successors: NDArray[np.int64], chances: NDArray[np.float32]) -> None:
        """Replaces the successors of `tokens` [n] by `successors` [n, 8], likeliest first, with their probabilities.

        A vocabulary of fewer ids has fewer columns.

        Of a token that stands there twice the later one is kept. Every verified node is to be written, the rejected
        ones included: their logits are as good (RACER, section 3; Token Recycling, arXiv 2408.08696).
        """
        if len(tokens) == 0:
            return
        self._reserve(int(tokens.max()) + 1)
        width = successors.shape[1]
        self.tokens[tokens, :width], self.chances[tokens, :width] = successors, chances

    def copy(self, tokens: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        """As `write`, of `rows` [n, 16] that are as they stand here: ids, then the bits of their probabilities."""
        try:
            self._rows[tokens] = rows
        except IndexError:  # which is found before anything is written, and sooner than the greatest id
            self._reserve(int(tokens.max()) + 1)
            self._rows[tokens] = rows

    @property
    def place(self) -> tuple[int, int]:
        """Where its lines [ids, 16] lie, as `copy` takes them, and how many there are; another place once it grew."""
        return self._rows.ctypes.data, len(self._rows)

    def _reserve(self, ids: int) -> None:
        if ids <= len(self.tokens):
            return
        old = self._rows
        known = np.flatnonzero(self.chances[:, 0])
        self._allot(1 << (ids - 1).bit_length())
        self._rows[known] = old[known]

    def _allot(self, ids: int) -> None:
        """A token's successors and their probabilities fill one line of a CPU's cache: a look-up misses once."""
        room = np.zeros((ids + 1) * 2 * WIDTH, np.int32)
        skip = -room.ctypes.data % _LINE // room.itemsize
        self._rows = room[skip : skip + ids * 2 * WIDTH].reshape(ids, 2 * WIDTH)
        self.tokens = self._rows[:, :WIDTH]
        self.chances = self._rows.view(np.float32)[:, WIDTH:]

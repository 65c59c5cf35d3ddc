"""Successors as a device writes them: the ids and the chances of a token side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class SuccessorBook(Protocol):
    """What keeps the successors of every token."""

    def write(self, tokens: NDArray[np.int64], successors: NDArray[np.int64], chances: NDArray[np.float32]) -> None:
        """Replaces the successors of `tokens` [n] by `successors` [n, 8] and their probabilities."""

    def copy(self, tokens: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        """The same of `rows` [n, 16]: ids, then the bits of the probabilities."""


class AnySuccessors(Protocol):
    """What the target thinks comes next, in whatever form it is kept: as `Successors`, or as a device writes it."""

    @property
    def tokens(self) -> Tensor:
        """[n] int64."""

    @property
    def likeliest(self) -> Tensor:
        """[n, 8] int64."""

    @property
    def chances(self) -> Tensor:
        """[n, 8] float32."""

    def enter(self, book: SuccessorBook) -> None:
        """Writes them into a book."""


@dataclass(slots=True)  # a frozen one takes three times as long to make, and every row makes one a step
class PackedSuccessors:
    """`Successors` of n tokens. Tensors are made where they are asked for: that takes some microseconds for each row,
    for which a device would wait."""

    step: tuple[NDArray[np.int64], NDArray[np.int32]]
    """Of all rows of a step: [N] what was fed in; [N, 2 k] k ids, likeliest first, then the bits of their
    probabilities."""
    begin: int
    end: int
    """Where the row's own n stand there."""

    @property
    def fed(self) -> NDArray[np.int64]:
        """[n]: what was fed in."""
        return self.step[0][self.begin : self.end]

    @property
    def rows(self) -> NDArray[np.int32]:
        """[n, 2 k]: what came of it."""
        return self.step[1][self.begin : self.end]

    @property
    def tokens(self) -> Tensor:
        """[n] int64."""
        return torch.from_numpy(self.fed)

    @property
    def likeliest(self) -> Tensor:
        """[n, k] int64."""
        return torch.from_numpy(self.rows[:, : self.rows.shape[1] // 2].astype(np.int64))

    @property
    def chances(self) -> Tensor:
        """[n, k] float32."""
        return torch.from_numpy(self.rows[:, self.rows.shape[1] // 2 :].copy().view(np.float32))

    def enter(self, book: SuccessorBook) -> None:
        """Copies lines as they are."""
        book.copy(self.fed, self.rows)

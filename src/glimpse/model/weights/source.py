"""What a source of weights is."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from glimpse.model.embedding import FileRows


class WeightSource(Protocol):
    """Named tensors of one checkpoint, read one at a time."""

    def __contains__(self, name: str) -> bool:
        """Whether the checkpoint has this tensor."""

    def where(self, name: str) -> str:
        """The file that holds (or should hold) a tensor, for error messages."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, without reading it."""

    def tensor(self, name: str) -> Tensor:
        """The tensor in the file's own dtype (float32 if quantised), maybe a view of the mapped file: copy to keep.

        Raises ModelError naming file and tensor if it cannot be read.
        """

    def rows(self, name: str) -> FileRows | None:
        """A reader of single rows of a matrix; None where there is no file."""

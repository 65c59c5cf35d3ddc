"""Weights already in memory."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


class MemoryWeights:
    """A `WeightSource` over a mapping of names to tensors."""

    def __init__(self, tensors: Mapping[str, Tensor], label: str = "memory") -> None:
        self._tensors, self._label = tensors, label

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def where(self, name: str) -> str:
        return self._label

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]

    def rows(self, name: str) -> None:
        return None

"""Where in its context a request's drafts have looked: how often each position was in a recall set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class Reads:
    """Counts over all draft rows of a request, their layers and heads."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, positions: Tensor, base: int) -> None:
        """A draft row that reads `positions` (`RecallSet.positions`) of the first `base` ones.

        Sets on a GPU are left out: to count them the host would have to wait for each.
        """
        if positions.device.type != "cpu":
            return
        counts = np.bincount(positions.numpy().ravel(), minlength=base)
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def shares(self, parts: int) -> list[float] | None:
        """The share of all reads that fell on each of `parts` equal parts of the context; None before the first."""
        total = self._counts.sum()
        if not total:
            return None
        # A part may begin inside a position (a context shorter than `parts`): reads are spread evenly over their own.
        below = np.concatenate([[0], np.cumsum(self._counts)])
        bounds = np.interp(np.linspace(0, len(self._counts), parts + 1), np.arange(len(below)), below)
        shares: list[float] = (np.diff(bounds) / total).tolist()
        return shares

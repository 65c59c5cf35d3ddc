"""What a drafter is, and what a draft is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from glimpse.sampling.law import Laws


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft tokens of several rows, laid end to end. A chain is a tree whose parents are -1, 0, 1, 2, ...

    Shapes: n nodes in all, R rows; row r owns nodes `offsets[r]` up to (not including) `offsets[r + 1]`.
    """

    tokens: Tensor
    """[n] int64: the token of each node."""
    parents: Tensor
    """[n] int64: the parent of each node, counted within its row; -1 is the last committed token. Parents come first."""
    offsets: tuple[int, ...]
    """R + 1 bounds of the rows' nodes; a row may be empty."""
    confidence: Tensor
    """[n] float32: the drafter's own probability of each node."""
    source: Tensor
    """[n] uint8: which source of the drafter made each node."""
    law: Laws | None = None
    """The laws the tokens were really drawn from, one a node; None for a deterministic proposal."""

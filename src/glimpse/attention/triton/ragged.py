"""Where the tokens of rows of different lengths lie in one batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ragged:
    """N tokens of B rows, each row's together; what is left over is padding."""

    firsts: Tensor
    """[B] int32: each row's first token."""
    owners: Tensor
    """[N] int32: the row of each token; -1: padding."""

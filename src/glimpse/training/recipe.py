"""How an adapter is trained. The paper's recipe is not published; `benchmarks/gpu_block.py` varies this one.

The defaults are what the demo model's adapter was trained with (docs/block.md has what was tried beside them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from glimpse.errors import ArgumentError
from glimpse.sampling import checks

_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "size": checks.Integer(1, 64),
    "layers": checks.Integer(1),
    "rank": checks.Integer(1, 4096),
    "inner": checks.Integer(0, 8192),
    "steps": checks.Integer(1),
    "length": checks.Integer(8),
    "sequences": checks.Integer(1),
    "branches": checks.Integer(1),
    "rate": checks.Number(0, 1, open_low=True),
    "decay": checks.Number(0, 1000, open_low=True),
    "distil": checks.Number(0, 1),
    "seed": checks.Integer(0, 2**32),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Raises ArgumentError for a value of a wrong type or out of range."""

    size: int = 8
    """Mask tokens of a group: the longest draft."""
    layers: int = 15
    """The last layers, which get projections for mask tokens (the paper has 10); a smaller model has all of them."""
    rank: int = 96
    """Inner width of the changes to the projections."""
    inner: int = 2048
    """Inner width of the calibrator; 0: none."""
    steps: int = 4000
    length: int = 1024
    """Tokens of a sequence."""
    sequences: int = 16
    """Sequences of a step. Memory grows with sequences * branches * size * vocabulary: fewer of them need less."""
    branches: int = 96
    """Places of each sequence, drawn at random, behind which a group of masks is put."""
    rate: float = 3e-3
    """Learning rate: over the first twentieth of the steps it grows to this, then falls to a tenth by a cosine."""
    decay: float = 4.0
    """A mask i places further on counts exp(-i / decay) as much (DFlash's form)."""
    distil: float = 0.5
    """Weight of the divergence from the target's laws; the text's own tokens have the rest."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.length < self.size + 3:
            raise ArgumentError(
                f"length {self.length} leaves no room for blocks of {self.size}: at least {self.size + 3}"
            )

    def first_of(self, layers: int) -> int:
        """The first tuned layer of a model with so many."""
        return max(0, layers - self.layers)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, from 0 on."""
        warm = max(1, self.steps // 20)
        if step < warm:
            return self.rate * (step + 1) / warm
        done = (step - warm) / max(1, self.steps - warm)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))

    def as_json(self) -> dict[str, Any]:
        """All of it, for the adapter's config."""
        return asdict(self)

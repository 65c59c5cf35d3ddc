"""How every engine of the public comparison is timed: seconds a token of whole runs, by the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

STEPS = 100
"""Tokens a run writes."""
REPEATS = 5
SAMPLED: dict[str, Any] = {"temperature": 0.7, "top_k": 50}


@dataclass(frozen=True, slots=True)
class Timed:
    """One engine at one shape and context, batch 1."""

    engine: str
    shape: str
    context: int
    seconds: tuple[float, ...]
    """Seconds a token of each run."""
    compile_s: float
    """What came once before: compilation, captures and the first runs."""
    note: str = ""

    @property
    def median(self) -> float:
        """Seconds a token."""
        return median(self.seconds)

    def run(self, floor: float) -> dict[str, Any]:
        """The entry of a result file; `floor`: seconds that a token takes at least."""
        return asdict(self) | {
            "ms": self.median * 1e3,
            "tokens_per_s": 1 / self.median,
            "floor_ms": floor * 1e3,
            "over_floor": self.median / floor,
        }


def repeated(run: Callable[[], None], steps: int = STEPS, repeats: int = REPEATS) -> tuple[float, ...]:
    """Seconds a token of runs of `steps` tokens, the device idle before and after each."""
    found = []
    for _ in range(repeats):
        settle()
        begun = time.perf_counter()
        run()
        settle()
        found.append((time.perf_counter() - begun) / steps)
    return tuple(found)


def settle() -> None:
    """Waits for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()

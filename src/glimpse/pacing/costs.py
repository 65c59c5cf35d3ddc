"""The measured step-time surface: what a step costs, learned from the steps that ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one engine step carried."""

    full_tokens: int = 0
    """Query tokens of rows that read everything (verify, plain)."""
    draft_tokens: int = 0
    """Query tokens of draft rows."""
    full_kv: int = 0
    """Positions read by the rows that read everything."""
    draft_kv: int = 0
    """Positions read by draft rows."""
    pairs: int = 0
    """Query tokens times positions, summed over the rows that read everything: the arithmetic of attention."""
    rounds: int = 0
    """Draft rounds that began: each chooses a recall set."""

    def __add__(self, other: StepLoad) -> StepLoad:
        return StepLoad(*(a + b for a, b in zip(self._tuple(), other._tuple(), strict=True)))

    def _tuple(self) -> tuple[int, ...]:
        return (self.full_tokens, self.draft_tokens, self.full_kv, self.draft_kv, self.pairs, self.rounds)

    def features(self) -> np.ndarray:
        """[7] float64: a constant and the six counts."""
        return np.array((1, *self._tuple()), dtype=np.float64)


class StepCosts:
    """Seconds of a step as a linear function of its load, fitted by least squares with exponential forgetting.

    ASPIRE's form (arXiv 2609.17943: constant + tokens + KV tokens read), with draft and full rows apart, and the
    arithmetic of attention beside its bytes. It starts from what bytes predict, so that kinds of step not yet seen have
    a price: `weight_bytes` are read once a step, `kv_bytes` once a position, at `bandwidth` bytes per second.
    """

    FORGET = 0.98
    """Weight of the past per step: about the last 50 steps count."""
    TRUST = 4.0
    """How many steps the start values are worth."""

    def __init__(self, weight_bytes: int, kv_bytes: int, bandwidth: float = 20e9) -> None:
        step, position = weight_bytes / bandwidth, kv_bytes / bandwidth
        self._scale = np.array((1, 1, 1, 1e3, 1e3, 1e4, 1))
        start = np.array((step, 0.04 * step, 0.04 * step, position, position, 0.2 * position, 0.05 * step))
        self._start = start * self._scale
        self._moment = np.diag(self.TRUST * np.array((1, 1, 1, 1, 1, 1, 1.0)))
        self._target = self._moment @ self._start
        self._fit = self._start
        self.steps = 0

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Learns from one step."""
        x = load.features() / self._scale
        # Errors count in proportion: a step of 10 ms should be right to within a millisecond, one of 1 s need not.
        weight = 1.0 / max(seconds, 1e-6) ** 2 * float(self._start[0]) ** 2
        prior = (1 - self.FORGET) * 0.05 * self.TRUST
        self._moment = self.FORGET * self._moment + weight * np.outer(x, x) + prior * np.eye(len(x))
        self._target = self.FORGET * self._target + weight * seconds * x + prior * self._start
        self._fit = np.maximum(np.linalg.solve(self._moment, self._target), 0.0)
        self.steps += 1

    def seconds(self, load: StepLoad) -> float:
        """Predicted seconds of a step with this load."""
        return float(load.features() / self._scale @ self._fit)

    def share(self, load: StepLoad, rows: int) -> float:
        """Seconds that a row with this load answers for, when `rows` rows share the constant of a step."""
        return self.seconds(load) - float(self._fit[0]) * (1 - 1 / max(rows, 1))

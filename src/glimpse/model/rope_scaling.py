"""Rotary scalings: how each stretches the rotation frequencies past the trained length.

Every scaling is a small frozen object without state, so one long request can never change a later short one. The
formulas give the same float32 values as transformers' `ROPE_INIT_FUNCTIONS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor


class RopeScaling(Protocol):
    """How rotation frequencies depend on the base `theta`, the head size and, for `dynamic`, the sequence length."""

    kind: ClassVar[str]
    by_length: ClassVar[bool]

    @property
    def attention_factor(self) -> float:
        """What cosines and sines are multiplied by."""

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        """Radians per position, [head_dim / 2] float32; [N, head_dim / 2] if `by_length` and given `lengths` [N]."""

    def context_length(self, max_positions: int) -> int:
        """How many tokens a request may have, given the checkpoint's `max_position_embeddings`."""


def plain_frequencies(theta: float | Tensor, head_dim: int) -> Tensor:
    """theta ** (-2i / head_dim) for i in [0, head_dim / 2) (RoFormer, equation 15). `theta` may be [N, 1]."""
    device = theta.device if isinstance(theta, Tensor) else None
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
    return 1.0 / theta**exponents


@dataclass(frozen=True, slots=True)
class Plain:
    """No scaling (`default`)."""

    kind: ClassVar[str] = "default"
    by_length: ClassVar[bool] = False
    attention_factor: ClassVar[float] = 1.0

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        return plain_frequencies(theta, head_dim)

    def context_length(self, max_positions: int) -> int:
        return max_positions


@dataclass(frozen=True, slots=True)
class Linear:
    """Positions divided by `factor` (position interpolation, arXiv 2306.15595, equation 3)."""

    factor: float
    kind: ClassVar[str] = "linear"
    by_length: ClassVar[bool] = False
    attention_factor: ClassVar[float] = 1.0

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        return plain_frequencies(theta, head_dim) / self.factor

    def context_length(self, max_positions: int) -> int:
        return max_positions


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The base grows with the length past `trained_length` (dynamic NTK); up to it nothing is scaled."""

    factor: float
    trained_length: int
    kind: ClassVar[str] = "dynamic"
    by_length: ClassVar[bool] = True
    attention_factor: ClassVar[float] = 1.0

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        if lengths is None:
            return plain_frequencies(theta, head_dim)
        stretch = self.factor * lengths.clamp(min=self.trained_length) / self.trained_length - (self.factor - 1)
        base = theta * stretch ** (head_dim / (head_dim - 2))
        return plain_frequencies(base[:, None], head_dim)

    def context_length(self, max_positions: int) -> int:
        return int(max_positions * self.factor)


@dataclass(frozen=True, slots=True)
class Llama3:
    """Long wavelengths divided by `factor`, short ones kept, the band between blended (the Llama 3.1 release)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    trained_length: int
    kind: ClassVar[str] = "llama3"
    by_length: ClassVar[bool] = False
    attention_factor: ClassVar[float] = 1.0

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        plain = plain_frequencies(theta, head_dim)
        turns = self.trained_length / (2 * math.pi / plain)
        blend = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        # Outside the band the blend is clipped to one of its ends: divided by the factor, or left alone.
        blend = blend.clamp(0.0, 1.0)
        return (1 - blend) * plain / self.factor + blend * plain

    def context_length(self, max_positions: int) -> int:
        return max_positions


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN (arXiv 2309.00071, section 3.2): interpolate slow dimensions, keep fast ones, ramp between."""

    factor: float
    trained_length: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    kind: ClassVar[str] = "yarn"
    by_length: ClassVar[bool] = False

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        # Written as transformers writes it (powers first, then one over factor times power) to round alike.
        powers = theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        low, high = self._ramp_ends(theta, head_dim)
        ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
        keep = 1 - ramp
        return 1.0 / (self.factor * powers) * (1 - keep) + 1.0 / powers * keep

    def _ramp_ends(self, theta: float, head_dim: int) -> tuple[float, float]:
        def dimension(turns: float) -> float:
            return head_dim * math.log(self.trained_length / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low, high = dimension(self.beta_fast), dimension(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        return low, high + (0.001 if low == high else 0)

    def context_length(self, max_positions: int) -> int:
        return max(max_positions, int(self.trained_length * self.factor))


@dataclass(frozen=True, slots=True)
class Divisors:
    """Frequencies divided by a list stored in the checkpoint (GGUF's `rope_freqs.weight`; llama3 baked in)."""

    divisors: tuple[float, ...]
    kind: ClassVar[str] = "divisors"
    by_length: ClassVar[bool] = False
    attention_factor: ClassVar[float] = 1.0

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        return plain_frequencies(theta, head_dim) / torch.tensor(self.divisors, dtype=torch.float32)

    def context_length(self, max_positions: int) -> int:
        return max_positions

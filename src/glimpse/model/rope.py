"""Rotary position embeddings: cosines and sines of a batch of tokens, and the rotation itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.model.rope_scaling import RopeScaling


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """The rotation of a checkpoint: base, head size and scaling."""

    theta: float
    head_dim: int
    scaling: RopeScaling


@dataclass(frozen=True, slots=True)
class Rotation:
    """What rotates one batch. `cos`, `sin` are [N, 1, head_dim]; the first half of `sin` is negated already."""

    cos: Tensor
    sin: Tensor
    half: int

    def apply(self, x: Tensor) -> Tensor:
        """Rotate `x` [N, any heads, head_dim] by each token's position; dimension i pairs with i + head_dim / 2."""
        return (x * self.cos).addcmul_(x.roll(self.half, -1), self.sin)


class Rotary:
    """Makes the `Rotation` of a batch. Holds constants only: nothing of one batch reaches the next."""

    def __init__(self, spec: RopeSpec, device: torch.device) -> None:
        self.spec = spec
        self._frequencies = spec.scaling.frequencies(spec.theta, spec.head_dim).to(device)

    def at(self, positions: Tensor, rope_lengths: Tensor, dtype: torch.dtype) -> Rotation:
        """The rotation for `positions` [N] int64.

        `rope_lengths` [N] int64 matters to `dynamic` scaling only: a token at position t of a request whose prompt has
        P tokens has length max(P, t + 1), which is what a plain token-by-token run would have seen.
        """
        scaling, frequencies = self.spec.scaling, self._frequencies
        if scaling.by_length:
            frequencies = scaling.frequencies(self.spec.theta, self.spec.head_dim, rope_lengths)
        angles = positions[:, None].to(torch.float32) * frequencies
        # Scaled in float32 and only then cast, as transformers does.
        cos, sin = angles.cos() * scaling.attention_factor, angles.sin() * scaling.attention_factor
        return Rotation(_pair(cos, cos, dtype), _pair(-sin, sin, dtype), self.spec.head_dim // 2)


def _pair(first: Tensor, second: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.cat((first, second), dim=-1).to(dtype)[:, None, :]

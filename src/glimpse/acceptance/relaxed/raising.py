"""Rules that raise what the target gives the drafted token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.relaxed.strength import Strength
from glimpse.acceptance.relaxed.template import ChainRule, Relaxed, of, residual


@dataclass(frozen=True, slots=True)
class Cactus(ChainRule):
    """CACTUS (arXiv 2604.04987, as restated in 2607.08690): for the drafted x and strength a >= 0,

        pi(x) = min(p(x) + sqrt(2 a p(x) (1 - p(x))), 1),   pi(y) = p(y) (1 - pi(x)) / (1 - p(x))   for y != x,

    in p's place both when accepting and after a rejection. Strict at a = 0.
    """

    name: ClassVar[str] = "cactus"
    strengths: ClassVar[Strength] = Strength(0.0, torch.inf, 0.1, (0.1, 0.25, 1.0, 10.0), 0.0, below=True)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        own = of(p, tokens)
        # In float64 and in this order no strength overflows where p(x) is 0 or 1.
        spread = self.strength * own.double() * (1 - own.double()) * 2
        raised = (own + spread.clamp_min(0).sqrt()).clamp_max(1.0).to(own.dtype)
        scale = torch.where(own < 1, (1 - raised) / (1 - own).clamp_min(1e-12), torch.ones_like(own))
        law = (p * scale[:, None]).scatter(1, tokens[:, None], raised[:, None])
        return Relaxed(raised, residual(law, q))


@dataclass(frozen=True, slots=True)
class Mentored(ChainRule):
    """Mentored decoding with beta = 1 (2607.08690): pi_rej = min(p / (1 - a), 1), 0 <= a < 1; pi_res = p. Strict at
    a = 0.
    """

    name: ClassVar[str] = "mentored"
    strengths: ClassVar[Strength] = Strength(0.0, 1.0, 0.3, (0.3, 0.7, 0.95), 0.0, below=True)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        return Relaxed((of(p, tokens) / (1 - self.strength)).clamp_max(1.0), residual(p, q))

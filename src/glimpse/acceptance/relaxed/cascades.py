"""Rules of speculative cascades: where the draft's law is as good a guess as the target's, it is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.relaxed.strength import Strength
from glimpse.acceptance.relaxed.template import ChainRule, Relaxed, of, residual


@dataclass(frozen=True, slots=True)
class CascadeOpt(ChainRule):
    """cascade-opt (2607.08690): pi = q where max q >= max p - a TV(p, q), else p. Strict at a = -inf.

    TV is half the sum of the differences, in [0, 1].
    """

    name: ClassVar[str] = "cascade-opt"
    strengths: ClassVar[Strength] = Strength(-torch.inf, torch.inf, 0.0, (-0.1, 0.0, 0.05), -torch.inf)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        apart = (p - q).abs().sum(1) / 2
        # At -inf times 0 the two laws are one, and NaN compares as False: p it is.
        as_good = q.amax(1) >= p.amax(1) - self.strength * apart
        law = torch.where(as_good[:, None], q, p)
        return Relaxed(of(law, tokens), residual(law, q))


@dataclass(frozen=True, slots=True)
class CascadeTok(ChainRule):
    """cascade-tok (2607.08690): q within the set T that the target trusts, what q has outside of it drawn of p:

        T = {v: p(v) >= (1 - a) max p},   pi(v) = q(v) [v in T] + p(v) sum over w outside T of q(w),   0 <= a <= 1.

    Not strict at 0, where T is the target's likeliest token (and nowhere else: no strength is).
    """

    name: ClassVar[str] = "cascade-tok"
    strengths: ClassVar[Strength] = Strength(0.0, 1.0, 0.0, (0.0, 0.35, 0.8), None)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        trusted = torch.where(p >= (1 - self.strength) * p.amax(1, keepdim=True), q, torch.zeros_like(q))
        law = trusted + p * (1 - trusted.sum(1, keepdim=True)).clamp_min(0.0)
        return Relaxed(of(law, tokens), residual(law, q))

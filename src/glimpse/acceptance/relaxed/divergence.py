"""Rules that take the draft's law where it is near the target's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.relaxed.strength import Strength
from glimpse.acceptance.relaxed.template import ChainRule, Relaxed, of, residual

_STRENGTH = Strength(-torch.inf, torch.inf, 0.05, (0.05, 0.2, 0.3), -torch.inf)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """[n]: JS(p, q) = KL(p, m) / 2 + KL(q, m) / 2 with m = (p + q) / 2, in nats: at most ln 2."""
    middle = ((p + q) / 2).log().clamp_min(-1e4)
    own = [torch.xlogy(law, law) - law * middle for law in (p, q)]
    return (own[0] + own[1]).sum(1) / 2


@dataclass(frozen=True, slots=True)
class ResidualFuzzy(ChainRule):
    """r-fuzzy (2607.08690): pi = q where JS(p, q) < a, else p. Strict at a = -inf (and at 0, as JS is never less)."""

    name: ClassVar[str] = "r-fuzzy"
    strengths: ClassVar[Strength] = _STRENGTH

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        near = jensen_shannon(p, q) < self.strength
        law = torch.where(near[:, None], q, p)
        return Relaxed(of(law, tokens), residual(law, q))


@dataclass(frozen=True, slots=True)
class Fuzzy(ChainRule):
    """Fuzzy (2607.08690): the drafted token is taken where JS(p, q) < a; else it is thrown away and the token comes of
    p itself. Strict at a = -inf, where every draft is thrown away.
    """

    name: ClassVar[str] = "fuzzy"
    strengths: ClassVar[Strength] = _STRENGTH

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        near = jensen_shannon(p, q) < self.strength
        return Relaxed(torch.where(near, of(q, tokens), torch.zeros_like(near, dtype=q.dtype)), p)

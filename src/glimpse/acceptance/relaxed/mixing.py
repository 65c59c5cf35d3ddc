"""Rules whose law is a mixture, or a contrast, of the target's and the draft's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.relaxed.strength import Strength
from glimpse.acceptance.relaxed.template import ChainRule, Relaxed, of, residual


@dataclass(frozen=True, slots=True)
class Ensemble(ChainRule):
    """pi = a q + (1 - a) p, 0 <= a <= 1 (2607.08690). Strict at a = 0."""

    name: ClassVar[str] = "ensemble"
    strengths: ClassVar[Strength] = Strength(0.0, 1.0, 0.05, (0.05, 0.1, 0.2), 0.0)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        law = torch.lerp(p, q, self.strength)
        return Relaxed(of(law, tokens), residual(law, q))


@dataclass(frozen=True, slots=True)
class Contrastive(ChainRule):
    """Speculative contrastive decoding (2607.08690): pi = softmax(z_p + a (z_p - z_q)) over the tokens that the
    target's truncation keeps, a >= 0. Strict at a = 0.

    z are log-probabilities after temperature and truncation, which differ from logits by constants; a token that the
    draft's own truncation cut counts as its least likely one, which is the most it can have had. The token after a
    draft accepted whole is of p (the study has it of pi): no draft law is known there.
    """

    name: ClassVar[str] = "contrastive"
    strengths: ClassVar[Strength] = Strength(0.0, torch.inf, 0.1, (0.1, 0.5, 1.0), 0.0, below=True)

    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """See `ChainRule.relax`."""
        least = q.masked_fill(q == 0, torch.inf).amin(1, keepdim=True)
        missed = (p.log() - torch.where(q > 0, q, least).log()).masked_fill(p == 0, -torch.inf).double()
        # Measured from the most missed one, so that no strength overflows: softmax sees differences alone.
        scores = p.log() + self.strength * (missed - missed.amax(1, keepdim=True))
        law = torch.softmax(scores.masked_fill(p == 0, -torch.inf), 1).to(p.dtype)
        return Relaxed(of(law, tokens), residual(law, q))

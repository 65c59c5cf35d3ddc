"""The Selector of Slow-Fast Inference: which positions fast steps read until the next slow one.

Slow-Fast Inference (arXiv 2603.12038), "Selector". Per layer and key/value head, over J, the positions that are neither
sinks nor recent ones, with the attention p_t of the last queries t over J:

    mu(j) = mean over t of p_t(j)^a,   f = norm(mu^(1/a))                                   (power mean, 0 < a <= 1)
    r(j) = norm((|k_j| + eps)^-g exp(-b u^e) (1 - u + eps)^h),   u in [0, 1] the place of j in J            (prior)
    lambda = clip((|f|^2 - f.r) / (|f|^2 - 2 f.r + |r|^2), 0, 0.02),   s = (1 - lambda) f + lambda r
    z = log s;   z -= 0.5 max(0, max of the neighbours' z - z);   z += 0.35 log softmax over the layer's heads of z

and the best z are chosen. The paper leaves a, g, b, e, h and who is a neighbour open; what a sweep over real text said
of them is in docs/lossy.md. It has the attention of single heads; here, as in `recall`, the weights of a group's query
heads are summed first, and p_t is what of that sum lies in J, brought to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.cache.recall import RecallBudget, select

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Selector:
    """The constants; the first line is the paper's, the others are ours."""

    most_prior: float = 0.02
    suppression: float = 0.5
    exclusivity: float = 0.35
    power: float = 1.0
    """a."""
    key_norm: float = 0.0
    """g; 0 never looks at the keys."""
    age: float = -4.0
    """b; below 0 it is late positions that are favoured, as though u were counted from the newest (docs/lossy.md)."""
    age_power: float = 1.0
    """e."""
    end: float = 0.0
    """h."""
    reach: int = 1
    """Positions to either side that are neighbours."""

    def select(self, weights: Tensor, norms: Tensor | None, budget: RecallBudget) -> Tensor:
        """[layers, kv_heads, B] int64, sorted: what to read, for the weights [layers, kv_heads, queries, length] of
        queries, and for `norms` [layers, kv_heads, length] of the keys (None where `key_norm` is 0).
        """
        length = weights.shape[-1]
        scores = torch.zeros(*weights.shape[:2], length, device=weights.device)
        if budget.positions(length) < length:
            inside = slice(budget.sinks, length - budget.recent)
            own = None if norms is None else norms[..., inside]
            scores[..., inside] = self.scores(weights[..., inside].float(), own)
        return select(scores, budget)

    def scores(self, weights: Tensor, norms: Tensor | None) -> Tensor:
        """z [layers, kv_heads, J] of the weights [layers, kv_heads, queries, J] and the norms [layers, kv_heads, J]."""
        fused = self._fused(weights)
        z = (self._mixed(fused, self._prior(fused, norms)) + _TINY).log()
        z = z - self.suppression * (neighbours(z, self.reach) - z).clamp_min(0)
        return z + self.exclusivity * torch.log_softmax(z, 1)

    def _fused(self, weights: Tensor) -> Tensor:
        shares = _norm(weights)
        if self.power == 1:
            return _norm(shares.mean(2))
        return _norm(shares.pow(self.power).mean(2).pow(1 / self.power))

    def _prior(self, fused: Tensor, norms: Tensor | None) -> Tensor:
        place = torch.linspace(0, 1, fused.shape[-1], device=fused.device)
        prior = torch.exp(-self.age * place**self.age_power) * (1 - place + _TINY) ** self.end
        if norms is not None:
            prior = prior * (norms + _TINY) ** -self.key_norm
        return _norm(prior.expand_as(fused))

    def _mixed(self, fused: Tensor, prior: Tensor) -> Tensor:
        own, both = (fused * fused).sum(-1, keepdim=True), (fused * prior).sum(-1, keepdim=True)
        apart = own - 2 * both + (prior * prior).sum(-1, keepdim=True)
        share = ((own - both) / apart.clamp_min(_TINY**2)).clamp(0, self.most_prior)
        return (1 - share) * fused + share * prior


def neighbours(z: Tensor, reach: int) -> Tensor:
    """Like z: the greatest of the `reach` entries to either side of each, along the last dimension."""
    found = torch.full_like(z, -torch.inf)
    for step in range(1, min(reach, z.shape[-1] - 1) + 1):
        found[..., step:] = torch.maximum(found[..., step:], z[..., :-step])
        found[..., :-step] = torch.maximum(found[..., :-step], z[..., step:])
    return found


def _norm(values: Tensor) -> Tensor:
    return values / values.sum(-1, keepdim=True).clamp_min(_TINY)

"""The law of the token that comes out at one position, for a rule, the target's law p and the draft's law q."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.acceptance.lossy import LossyRule
from glimpse.acceptance.relaxed.template import ChainRule
from glimpse.acceptance.relaxed.walks import WalkRule
from glimpse.sampling.law import Laws

DRAWS = 4096
FLOOR = 1e-6
"""Probabilities of the emitted law count as no less where divided by."""


def emitted(rule: LossyRule | None, p: Tensor, q: Tensor, *, seed: int = 0) -> Tensor:
    """[V] of the laws p and q [V] (float32), the draft being drawn from q as the rule has it drawn.

    An exact rule (None) emits p. Chain rules: exactly, by their formula over every draft token. Walk rules draw draft
    and pick with the same noise: DRAWS draws, of which only the tokens let pass move mass; what must agree behind a
    deferred mismatch is taken to agree, so that of `entropy-gated` is an upper bound. `trust`: q.
    """
    if rule is None:
        return p
    inside = ((p > 0) | (q > 0)).nonzero().squeeze(1)
    own_p, own_q = p[inside], q[inside]
    if isinstance(rule, ChainRule):
        law = _of_chain(rule, own_p, own_q)
    elif isinstance(rule, WalkRule):
        law = _of_walk(rule, own_p, own_q, seed)
    else:
        law = own_q
    return torch.zeros_like(p).index_copy_(0, inside, law)


def _of_chain(rule: ChainRule, p: Tensor, q: Tensor) -> Tensor:
    drafted = q.nonzero().squeeze(1)
    each = len(drafted)
    made = rule.relax(p.expand(each, -1), q.expand(each, -1), drafted)
    chance = q[drafted]
    taken = (made.accept / chance).clamp_max(1.0)
    law = torch.zeros_like(p).index_add_(0, drafted, chance * taken)
    return law + ((chance * (1 - taken))[:, None] * made.rest).sum(0)


def _of_walk(rule: WalkRule, p: Tensor, q: Tensor, seed: int) -> Tensor:
    picked, drafted, passes = _drawn(rule, p, q, seed)
    moved = passes[drafted] & (drafted != picked)
    step = torch.full((int(moved.sum()),), 1 / DRAWS)
    law = p.clone().index_add_(0, drafted[moved], step).index_add_(0, picked[moved], -step)
    return law.clamp_min(0.0) / law.clamp_min(0.0).sum()


def _drawn(rule: WalkRule, p: Tensor, q: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(picks, drafts) [DRAWS] with the same noise, and which tokens [V] the rule lets pass."""
    generator = torch.Generator().manual_seed(seed)
    noise = -torch.empty(DRAWS, len(p)).exponential_(generator=generator).log()
    passes = rule.passes(Laws.dense(p.log().expand(len(p), -1)), torch.arange(len(p))) & (p > 0)
    return (p.log() + noise).argmax(1), (q.log() + noise).argmax(1), passes


def kl(p: Tensor, law: Tensor) -> float:
    """KL(p, law) in nats; `law` counts as FLOOR at least."""
    return float(torch.xlogy(p, p / law.clamp_min(FLOOR)).sum())


def tv(p: Tensor, law: Tensor) -> float:
    """Total variation, in [0, 1]: the least share of tokens that must differ."""
    return float((p - law).abs().sum()) / 2


def accepted(rule: LossyRule | None, p: Tensor, q: Tensor, *, seed: int = 0) -> float:
    """The chance that a draft token is accepted where all before it were; for an exact rule that of `rejection`.

    Walk rules as in `emitted`; `trust` accepts everything.
    """
    if rule is None:
        return float(torch.minimum(p, q).sum())
    inside = ((p > 0) | (q > 0)).nonzero().squeeze(1)
    own_p, own_q = p[inside], q[inside]
    if isinstance(rule, ChainRule):
        drafted = own_q.nonzero().squeeze(1)
        made = rule.relax(own_p.expand(len(drafted), -1), own_q.expand(len(drafted), -1), drafted)
        return float(torch.minimum(made.accept, own_q[drafted]).sum())
    if isinstance(rule, WalkRule):
        picked, drafted, passes = _drawn(rule, own_p, own_q, seed)
        return float(((drafted == picked) | passes[drafted]).float().mean())
    return 1.0

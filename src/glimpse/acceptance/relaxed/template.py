"""Relaxed speculative sampling of chains: one form, of which each rule is a few lines.

The form of the study "A practical investigation of training-free relaxed speculative decoding" (arXiv 2607.08690,
section 7 of which names the rules): a draft token x, drawn from the draft's law q where the target's is p, is accepted
with min(1, pi_rej(x) / q(x)); after a rejection the token comes of norm(max(0, pi_res - q)); after a draft accepted
whole, of p. With pi_rej = pi_res = p that is exact (`rejection`); each rule puts something looser in p's place.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.chains import check_chains, judges, leading
from glimpse.acceptance.relaxed.strength import OfStrength
from glimpse.acceptance.rule import Accepted, NodeNoise, first_laws
from glimpse.drafting.drafter import Draft
from glimpse.errors import ArgumentError
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import Role, uniform


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What takes the target's place at each of n nodes."""

    accept: Tensor
    """[n]: pi_rej of the drafted token."""
    rest: Tensor
    """[n, V]: the law of the token after a rejection."""


@dataclass(frozen=True, slots=True)
class ChainRule(OfStrength):
    """For chains of drafters that have a law; drafts are drawn with noise that acceptance does not see."""

    draft_role: ClassVar[Role] = Role.DRAFT
    needs_law: ClassVar[bool] = True
    trees: ClassVar[bool] = False
    usual_drafter: ClassVar[str] = "sparse"

    @abstractmethod
    def relax(self, p: Tensor, q: Tensor, tokens: Tensor) -> Relaxed:
        """From the laws p and q [n, V] of target and draft and the drafted `tokens` [n]."""

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """See `Acceptance.accept`. Raises ArgumentError for a tree, and for drafts without a law."""
        check_chains(draft, self.name)
        device, before = draft.tokens.device, judges(draft)
        firsts = torch.tensor(first_laws(draft.offsets), dtype=torch.int64, device=device)
        if not len(draft.tokens):
            plain = pick(laws.select(firsts), noise.seeds[firsts], noise.positions[firsts], Role.TARGET)
            return Accepted.of([()] * len(firsts), [[token] for token in plain.tolist()], device)
        if draft.law is None:
            raise ArgumentError(f"lossy {self.name!r} needs the law that drafts were drawn from, and these have none")
        p, q = laws.select(before).probs(), draft.law.probs()
        relaxed = self.relax(p, q, draft.tokens)
        only = torch.zeros(1, dtype=torch.int64, device=device)
        u = uniform(noise.seeds[before], noise.positions[before], Role.ACCEPT, 0, only).squeeze(1)
        level = u * of(q, draft.tokens)
        counts = leading((level < relaxed.accept).tolist(), draft.offsets)
        own = _own_tokens(draft, laws, relaxed.rest, noise, firsts, counts).tolist()
        extra = (level >= of(p, draft.tokens)).tolist()
        tokens, starts = draft.tokens.tolist(), draft.offsets[:-1]
        rows = list(zip(starts, counts, own, strict=True))
        emitted = [[*tokens[start : start + count], token] for start, count, token in rows]
        made = Accepted.of([range(count) for count in counts], emitted, device)
        return made.with_relaxed([sum(extra[start : start + count]) for start, count, _ in rows])


def of(laws: Tensor, tokens: Tensor) -> Tensor:
    """[n]: what each of the laws [n, V] gives its own token."""
    return laws.gather(1, tokens.unsqueeze(1)).squeeze(1)


def residual(law: Tensor, q: Tensor) -> Tensor:
    """[n, V]: norm(max(0, law - q)); where nothing is left (equal but for rounding), the law itself."""
    rest = (law - q).clamp_min(0.0)
    mass = rest.sum(1, keepdim=True)
    return torch.where(mass > 0, rest / mass, law / law.sum(1, keepdim=True))


def _own_tokens(draft: Draft, laws: Laws, rest: Tensor, noise: NodeNoise, firsts: Tensor, counts: list[int]) -> Tensor:
    """[R]: the token after the accepted nodes, of the target's law or, after a rejection, of the rule's."""
    accepted = torch.tensor(counts, dtype=torch.int64, device=firsts.device)
    last = firsts + accepted
    seeds, positions = noise.seeds[last], noise.positions[last]
    tokens = pick(laws.select(last), seeds, positions, Role.TARGET)
    refused = [row for row, (start, end) in enumerate(pairwise(draft.offsets)) if counts[row] < end - start]
    if refused:
        nodes = [draft.offsets[row] + counts[row] for row in refused]
        tokens[refused] = pick(Laws.dense(rest[nodes].log()), seeds[refused], positions[refused], Role.RESIDUAL)
    return tokens

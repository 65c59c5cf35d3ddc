"""Speculative sampling: accept with min(1, p/q), else draw from what p has over q.

Leviathan et al., "Fast inference from transformers via speculative decoding", 2023, algorithm 1; Chen et al.,
"Accelerating large language model decoding with speculative sampling", 2023, algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.chains import check_chains, judges, leading
from glimpse.acceptance.rule import Accepted, NodeNoise, first_laws
from glimpse.drafting.drafter import Draft
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import Role, uniform


@dataclass(frozen=True, slots=True)
class Rejection:
    """For chains. q is the law that each draft token was really drawn from; a deterministic proposal has q = 1.

    No anticipation: whether a sampled token is verified may depend only on what was known before it was drawn, unless
    all that was drafted is verified. Dropping tokens for what they turned out to be biases the output.

    Noise: a position's ACCEPT and RESIDUAL numbers, and the TARGET number of the token after a wholly accepted draft,
    are looked at in the one round that commits the position, so they need no salt. Draft tokens are drawn with DRAFT
    noise, salted (see `draft_salt`): a position may be drafted several times before it is committed.
    """

    name: ClassVar[str] = "rejection"
    lossless: ClassVar[bool] = True
    draft_role: ClassVar[Role] = Role.DRAFT
    needs_law: ClassVar[bool] = True
    trees: ClassVar[bool] = False

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """See `Acceptance.accept`. Raises ArgumentError for a tree."""
        check_chains(draft, self.name)
        device = draft.tokens.device
        firsts = torch.tensor(first_laws(draft.offsets), dtype=torch.int64, device=device)
        proposal = draft.law if draft.law is not None else _certain(draft.tokens, laws.vocab)
        passed = _passed(draft, laws, proposal, noise)
        counts = leading(passed.tolist(), draft.offsets)
        accepted = torch.tensor(counts, dtype=torch.int64, device=device)
        own = _own_tokens(draft, laws, proposal, noise, firsts + accepted, accepted).tolist()
        tokens = draft.tokens.tolist()
        emitted = [
            [*tokens[start : start + count], token]
            for start, count, token in zip(draft.offsets, counts, own, strict=False)
        ]
        return Accepted.of([range(count) for count in counts], emitted, device)


def _certain(tokens: Tensor, vocab: int) -> Laws:
    """The laws of a deterministic proposal: q = 1 on its token, and nothing where that is no id of the laws."""
    inside = (tokens >= 0) & (tokens < vocab)
    laws = Laws.point(tokens.clamp(0, vocab - 1), vocab)
    return Laws(laws.logp.masked_fill(~inside.unsqueeze(1), -torch.inf), laws.ids, laws.greedy, vocab)


def _passed(draft: Draft, laws: Laws, proposal: Laws, noise: NodeNoise) -> Tensor:
    """[n] bool: whether u q(x) < p(x) at each node, u being the ACCEPT number of its position."""
    before = judges(draft)
    asked = torch.zeros(len(laws), dtype=torch.int64, device=before.device).index_copy_(0, before, draft.tokens)
    p = laws.logp_of(asked)[before].exp()
    q = proposal.logp_of(draft.tokens).exp()
    only = torch.zeros(1, dtype=torch.int64, device=p.device)
    u = uniform(noise.seeds[before], noise.positions[before], Role.ACCEPT, 0, only).squeeze(1)
    return u * q < p


def _own_tokens(draft: Draft, laws: Laws, proposal: Laws, noise: NodeNoise, last: Tensor, accepted: Tensor) -> Tensor:
    """[R]: the target's own token after the accepted nodes, from its law or, after a rejection, from the residual."""
    seeds, positions, own = noise.seeds[last], noise.positions[last], laws.select(last)
    starts = torch.tensor(draft.offsets, dtype=torch.int64, device=last.device)
    refused = (accepted < starts.diff()).nonzero().squeeze(1)
    tokens = pick(own, seeds, positions, Role.TARGET)
    if refused.numel():
        rest = _residual(own.select(refused), proposal.select((starts[:-1] + accepted)[refused]))
        tokens[refused] = pick(rest, seeds[refused], positions[refused], Role.RESIDUAL)
    return tokens


def _residual(target: Laws, proposal: Laws) -> Laws:
    """The laws norm(max(p - q, 0)); where rounding leaves nothing of one (p and q equal but for it), p itself."""
    p = target.probs()
    rest = (p - proposal.probs()).clamp_min_(0.0)
    mass = rest.sum(dim=1, keepdim=True)
    return Laws.dense(torch.where(mass > 0, rest / mass, p).log())

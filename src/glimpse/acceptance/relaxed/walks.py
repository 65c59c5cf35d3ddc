"""Rules on the walk of `coupled`: beside the target's own pick they take a drafted token that is likely enough.

So they need no law of the draft, and take trees. At every node the child that holds the target's pick is taken, as
`coupled` does; where there is none, the likeliest child that the rule lets pass. The published rules have no pick of
the target beside the draft; with it, the strict end of each is `coupled`, whose text is that of plain decoding.

At temperature 0 a law is one token, which every rule but the pick then refuses: nothing is relaxed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.acceptance.relaxed.strength import OfStrength, Strength
from glimpse.acceptance.rule import Accepted, NodeNoise, first_laws
from glimpse.drafting.drafter import Draft
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import Role

WINDOW = 4
"""Tokens that must agree behind a deferred mismatch. FLy's own window is not restated in what we read; drafts here
have 4 to 10 tokens."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row's draft under judgement."""

    tokens: Sequence[int]
    parents: Sequence[int]
    picks: Sequence[int]
    """picks[0] after the root, picks[i + 1] after node i."""
    passes: Sequence[bool]
    chances: Sequence[float]
    """Of each node, by the target's law before it."""

    def child(self, at: int) -> int | None:
        """The node after `at` that holds the target's pick."""
        pairs = enumerate(zip(self.tokens, self.parents, strict=True))
        return next((n for n, (token, up) in pairs if up == at and token == self.picks[at + 1]), None)

    def agreeing(self, at: int, most: int) -> bool:
        """Whether the next `most` nodes after `at` can be the target's picks."""
        for _ in range(most):
            found = self.child(at)
            if found is None:
                return False
            at = found
        return True

    def others(self, at: int) -> list[int]:
        """The children of `at` that the rule lets pass, likeliest first."""
        found = [node for node, up in enumerate(self.parents) if up == at and self.passes[node]]
        return sorted(found, key=lambda node: -self.chances[node])


def walk(row: Row, proof: int) -> tuple[list[int], int]:
    """The accepted nodes, and how many of them are not the target's picks; behind such a one `proof` must be."""
    path: list[int] = []
    at, relaxed = -1, 0
    while True:
        found = row.child(at)
        if found is None:
            found = next((node for node in row.others(at) if row.agreeing(node, proof)), None)
            relaxed += found is not None
        if found is None:
            return path, relaxed
        path.append(found)
        at = found


@dataclass(frozen=True, slots=True)
class WalkRule(OfStrength):
    """For chains and trees, with a law or without; drafts are drawn with the target's own noise."""

    proof: ClassVar[int] = 0
    """Nodes that must agree behind one that is let pass."""
    draft_role: ClassVar[Role] = Role.TARGET
    needs_law: ClassVar[bool] = False
    trees: ClassVar[bool] = True
    usual_drafter: ClassVar[str] = "lookup"

    @abstractmethod
    def passes(self, laws: Laws, tokens: Tensor) -> Tensor:
        """[n] bool: whether each token may be taken under its own law, which gives it some probability."""

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """See `Acceptance.accept`."""
        picks = pick(laws, noise.seeds, noise.positions, Role.TARGET).tolist()
        firsts = first_laws(draft.offsets)
        tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
        passes, chances = self._judged(draft, laws, firsts)
        paths, emitted, relaxed = [], [], []
        for row, first in enumerate(firsts):
            own = slice(draft.offsets[row], draft.offsets[row + 1])
            ends = picks[first : first + own.stop - own.start + 1]
            path, extra = walk(Row(tokens[own], parents[own], ends, passes[own], chances[own]), self.proof)
            paths.append(path)
            emitted.append([*(tokens[own][node] for node in path), ends[path[-1] + 1 if path else 0]])
            relaxed.append(extra)
        return Accepted.of(paths, emitted, draft.tokens.device).with_relaxed(relaxed)

    def _judged(self, draft: Draft, laws: Laws, firsts: list[int]) -> tuple[list[bool], list[float]]:
        if not len(draft.tokens):
            return [], []
        first = torch.repeat_interleave(torch.tensor(firsts), torch.tensor(draft.offsets).diff())
        before = laws.select(first.to(draft.parents.device) + draft.parents + 1)
        chances = before.logp_of(draft.tokens).exp()
        return ((chances > 0) & self.passes(before, draft.tokens)).tolist(), chances.tolist()


def entropy(laws: Laws) -> Tensor:
    """[N]: in nats, of the laws as they are drawn from, truncation included."""
    return -(laws.logp.exp() * laws.logp.clamp_min(-1e4)).sum(1)


@dataclass(frozen=True, slots=True)
class Typical(WalkRule):
    """Typical acceptance (Medusa, arXiv 2401.10774, section 2.3.1): x passes if p(x) > min(d^2, d exp(-H(p))).

    The published pair is delta 0.3 and epsilon 0.09, its square. A smaller d is looser; strict at d = inf.
    """

    name: ClassVar[str] = "typical"
    strengths: ClassVar[Strength] = Strength(0.0, torch.inf, 0.3, (0.6, 0.3, 0.1), torch.inf)

    def passes(self, laws: Laws, tokens: Tensor) -> Tensor:
        """See `WalkRule.passes`."""
        level = (self.strength * torch.exp(-entropy(laws))).clamp_max(self.strength * self.strength)
        return laws.logp_of(tokens).exp() > level


@dataclass(frozen=True, slots=True)
class TopK(WalkRule):
    """x passes if it is among the k likeliest tokens of the target's law. Strict at k = 0."""

    name: ClassVar[str] = "top-k"
    strengths: ClassVar[Strength] = Strength(0, torch.inf, 2, (1, 2, 4), 0, whole=True)

    def passes(self, laws: Laws, tokens: Tensor) -> Tensor:
        """See `WalkRule.passes`."""
        return (laws.logp > laws.logp_of(tokens)[:, None]).sum(1) < self.strength


@dataclass(frozen=True, slots=True)
class EntropyGated(WalkRule):
    """Deferred mismatches (in the manner of FLy, arXiv 2511.22972): where the target's law has an entropy of more than
    h nats, a mismatch passes if the WINDOW tokens drafted behind it are the target's picks. Strict at h = inf.
    """

    name: ClassVar[str] = "entropy-gated"
    strengths: ClassVar[Strength] = Strength(0.0, torch.inf, 1.0, (2.0, 1.0, 0.0), torch.inf)
    proof: ClassVar[int] = WINDOW

    def passes(self, laws: Laws, tokens: Tensor) -> Tensor:
        """See `WalkRule.passes`."""
        return entropy(laws) > self.strength

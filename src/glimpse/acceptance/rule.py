"""What an acceptance rule is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Protocol

import torch
from torch import Tensor

from glimpse.drafting.drafter import Draft
from glimpse.sampling.law import Laws
from glimpse.sampling.noise import Role


@dataclass(frozen=True, slots=True)
class NodeNoise:
    """What keys the noise of each target law: its row's seed, and the position of the token picked from it."""

    seeds: Tensor
    """[n + R] int64."""
    positions: Tensor
    """[n + R] int64: committed length + depth of the node."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome for R rows, laid end to end."""

    path: Tensor
    """[sum(counts)] int64: the accepted draft nodes of each row, counted within the row, from the root on."""
    tokens: Tensor
    """[sum(counts) + R] int64: each row's accepted tokens, then the target's own token."""
    counts: tuple[int, ...]
    """Accepted draft tokens of each row."""
    relaxed: tuple[int, ...] = ()
    """Of a lossy rule: how many of them an exact one would not have accepted; () for an exact one."""

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], device: torch.device) -> Accepted:
        """From lists per row: `paths`, and `tokens` with the target's own last."""
        flat_path, flat_tokens = list(chain.from_iterable(paths)), list(chain.from_iterable(tokens))
        return cls(
            torch.tensor(flat_path, dtype=torch.int64, device=device),
            torch.tensor(flat_tokens, dtype=torch.int64, device=device),
            tuple(len(path) for path in paths),
        )

    def with_relaxed(self, counts: Sequence[int]) -> Accepted:
        """The same with `relaxed`, one count a row."""
        return replace(self, relaxed=tuple(counts))

    def paths(self) -> list[list[int]]:
        """The accepted nodes, a list a row."""
        return _cut(self.path.tolist(), self.counts)

    def token_lists(self) -> list[list[int]]:
        """The tokens to commit, a list a row, never empty."""
        return _cut(self.tokens.tolist(), [count + 1 for count in self.counts])


def _cut(flat: list[int], lengths: Sequence[int]) -> list[list[int]]:
    ends = list(accumulate(lengths, initial=0))
    return [flat[start:end] for start, end in pairwise(ends)]


class Acceptance(Protocol):
    """Decides how much of each row's draft becomes output, and what follows it. Acts on the whole batch."""

    name: str
    lossless: bool
    """Whether the output has exactly the target's law."""
    draft_role: Role
    """The noise that drafts are drawn with; its salt is `draft_salt(draft_role, committed)`."""
    needs_law: bool
    """Whether `Draft.law` must be there for drafts that were sampled (a deterministic proposal never has one)."""
    trees: bool
    """Whether drafts may branch."""

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """The longest acceptable path of each row, and the target's own token after it.

        Row r with d nodes has d + 1 target laws (and entries of `noise`), laid end to end: the law after the last
        committed token, then the law after each node in order. Rows without nodes are legal, as is a batch of them.
        """
        ...


def trusts(rule: Acceptance) -> bool:
    """Whether drafted tokens are output without a verification (lossy: `relaxed.trust`)."""
    return getattr(rule, "trusts", False)


def first_laws(offsets: Sequence[int]) -> list[int]:
    """The index of each row's first target law, given the bounds of the rows' nodes."""
    return [start + row for row, start in enumerate(offsets[:-1])]

"""The exact rules that pick one token of the target's law at every node: `coupled` and `matched`.

Both are one walk: from the root, go to the child that holds the token picked at the current node, until there is none;
what is emitted are the picks. So the output is a function of target laws and noise alone; drafts only decide how much
of it one round yields, and any draft, pruned or rolled back in any way, is exact. It matters that a node is picked
once: with a second pick after a mismatch, a child of probability p would be emitted with 2p - p^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from glimpse.acceptance.rule import Accepted, NodeNoise, first_laws
from glimpse.drafting.drafter import Draft
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import Role


def walk(tokens: Sequence[int], parents: Sequence[int], picks: Sequence[int]) -> list[int]:
    """The nodes of one row that agree with the picks: picks[0] after the root, picks[i + 1] after node i.

    One pass, since parents come before children. Of equal siblings the first is taken.
    """
    path: list[int] = []
    at = -1
    for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        if parent == at and token == picks[at + 1]:
            path.append(node)
            at = node
    return path


def _accept(draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
    picked = pick(laws, noise.seeds, noise.positions, Role.TARGET)
    picks, tokens, parents = picked.tolist(), draft.tokens.tolist(), draft.parents.tolist()
    paths, emitted = [], []
    for row, first in enumerate(first_laws(draft.offsets)):
        start, end = draft.offsets[row], draft.offsets[row + 1]
        own = picks[first : first + end - start + 1]
        path = walk(tokens[start:end], parents[start:end], own)
        paths.append(path)
        emitted.append([own[node + 1] for node in (-1, *path)])
    return Accepted.of(paths, emitted, picked.device)


@dataclass(frozen=True, slots=True)
class Coupled:
    """Draft and target pick with the same noise; a draft token is accepted when the target's own pick equals it.

    The text equals plain sampling with the same seed, token for token. Where the draft's law is close to the target's,
    the same noise mostly picks the same token (Gumbel coupling).
    """

    name: ClassVar[str] = "coupled"
    lossless: ClassVar[bool] = True
    draft_role: ClassVar[Role] = Role.TARGET
    needs_law: ClassVar[bool] = False
    trees: ClassVar[bool] = True

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """See `Acceptance.accept`."""
        return _accept(draft, laws, noise)


@dataclass(frozen=True, slots=True)
class Matched:
    """The target picks with noise of its own, independent of the draft's; otherwise as `coupled`."""

    name: ClassVar[str] = "matched"
    lossless: ClassVar[bool] = True
    draft_role: ClassVar[Role] = Role.DRAFT
    needs_law: ClassVar[bool] = False
    trees: ClassVar[bool] = True

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """See `Acceptance.accept`."""
        return _accept(draft, laws, noise)

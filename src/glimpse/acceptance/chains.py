"""What the rules for chains share: `rejection` and the relaxed rules of its form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from glimpse.drafting.drafter import Draft
from glimpse.errors import ArgumentError


def check_chains(draft: Draft, name: str) -> None:
    """Raises ArgumentError naming the rule where the draft branches."""
    chains = [node - 1 for start, end in pairwise(draft.offsets) for node in range(end - start)]
    if draft.parents.tolist() != chains:
        raise ArgumentError(f"acceptance {name!r} takes chains, not trees; 'coupled' and 'matched' take both")


def judges(draft: Draft) -> Tensor:
    """[n] int64: the target law that judges each node, which is the one before it: node i of row r by law i + r."""
    bounds = list(pairwise(draft.offsets))
    laws = [node + row for row, (start, end) in enumerate(bounds) for node in range(start, end)]
    return torch.tensor(laws, dtype=torch.int64, device=draft.tokens.device)


def leading(passed: Sequence[bool], offsets: Sequence[int]) -> list[int]:
    """How many nodes of each row pass before the first that does not."""
    counts = []
    for start, end in pairwise(offsets):
        own = list(passed[start:end])
        counts.append(own.index(False) if False in own else end - start)
    return counts

"""Building drafts that are chains."""

from __future__ import annotations

from itertools import accumulate

import torch

from glimpse.drafting.drafter import Draft


def chain(tokens: list[list[int]], confidence: list[list[float]]) -> Draft:
    """A deterministic chain draft from the rows' tokens and the drafter's probability of each."""
    flat = [token for row in tokens for token in row]
    offsets = tuple(accumulate((len(row) for row in tokens), initial=0))
    parents = [index - 1 for row in tokens for index in range(len(row))]
    return Draft(
        tokens=torch.tensor(flat, dtype=torch.int64),
        parents=torch.tensor(parents, dtype=torch.int64),
        offsets=offsets,
        confidence=torch.tensor([p for row in confidence for p in row], dtype=torch.float32),
        source=torch.zeros(len(flat), dtype=torch.uint8),
    )

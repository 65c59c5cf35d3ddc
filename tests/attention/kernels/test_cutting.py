"""Blocks cut where they are made, as the host's rule says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glimpse.attention.triton.cutting import cut
from glimpse.pacing.block_rule import NUMBERS, CutRule
from glimpse.pacing.proposals import DEPTHS, LEAST, SURENESS, SUREST

ROWS, SIZE = 24, 6


@pytest.mark.parametrize("alpha", [0.0, 2.0], ids=["floor", "search"])
@pytest.mark.parametrize("size", [1, SIZE])
def test_the_device_keeps_what_the_rule_says(size, alpha):
    """Of what was offered, on whose last token a search depends; every other row has a floor alone."""
    draw = np.random.default_rng(size)
    said = draw.random((ROWS, size)).astype(np.float32) ** 0.5
    ratios = draw.uniform(0.2, 2, (ROWS, DEPTHS, len(SURENESS) + 1)).astype(np.float32)
    floors = draw.uniform(0, 0.8, ROWS) if not alpha else np.zeros(ROWS)
    rules = [
        CutRule(float(floor), own, alpha * (row % 2))
        for row, (floor, own) in enumerate(zip(floors, ratios, strict=True))
    ]
    rules[0] = CutRule(0.0, np.zeros_like(ratios[0]))
    said[1] = 1e-4
    block = torch.cat([torch.zeros(ROWS, size, dtype=torch.int32), torch.from_numpy(said).view(torch.int32)], 1)
    numbers, room = torch.tensor([rule.numbers for rule in rules]), torch.from_numpy(draw.integers(0, size + 1, ROWS))
    assert numbers.shape == (ROWS, NUMBERS)
    drafted = room.to(torch.int32)
    cut(block, numbers, torch.tensor(SURENESS), drafted, DEPTHS, (LEAST, SUREST))
    right = [
        rule.length(own[: int(left)].astype(np.float64)) for left, rule, own in zip(room, rules, said, strict=True)
    ]
    assert drafted.tolist() == right
    assert drafted[0] == room[0], "a floor of nothing keeps all"
    assert len(set(right)) > 1
    if alpha and size > 1:
        searched = zip(right, room, rules, strict=True)
        assert any(kept < left for kept, left, rule in searched if rule.alpha), "a search ends before what is offered"

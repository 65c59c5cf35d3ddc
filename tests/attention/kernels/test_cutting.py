"""Blocks cut where they are made, as the host's rule says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glimpse.attention.triton.cutting import cut
from glimpse.pacing.block_rule import NUMBERS, CutRule
from glimpse.pacing.proposals import DEPTHS, SURENESS, SUREST

ROWS, SIZE = 24, 6


@pytest.mark.parametrize("size", [1, SIZE])
def test_the_device_keeps_what_the_rule_says(size):
    draw = np.random.default_rng(size)
    said = draw.random((ROWS, size)).astype(np.float32) ** 0.5
    ratios = draw.uniform(0.2, 2, (ROWS, DEPTHS, len(SURENESS) + 1)).astype(np.float32)
    rules = [CutRule(float(floor), own) for floor, own in zip(draw.uniform(0, 0.8, ROWS), ratios, strict=True)]
    rules[0] = CutRule(0.0, np.zeros_like(ratios[0]))
    block = torch.cat([torch.zeros(ROWS, size, dtype=torch.int32), torch.from_numpy(said).view(torch.int32)], 1)
    numbers, room = torch.tensor([rule.numbers for rule in rules]), torch.from_numpy(draw.integers(0, size + 1, ROWS))
    assert numbers.shape == (ROWS, NUMBERS)
    drafted = room.to(torch.int32)
    cut(block, numbers, torch.tensor(SURENESS), drafted, DEPTHS, SUREST)
    right = [
        min(int(left), rule.length(own.astype(np.float64))) for left, rule, own in zip(room, rules, said, strict=True)
    ]
    assert drafted.tolist() == right
    assert drafted[0] == room[0], "a floor of nothing keeps all"
    assert len(set(right)) > 1

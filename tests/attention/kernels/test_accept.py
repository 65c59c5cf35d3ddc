"""Acceptance of chains on the device against the walk of the exact rules."""

from __future__ import annotations

import torch

from glimpse.acceptance.exact import walk
from glimpse.attention.triton.accept import accept_chains


def test_chains_agree_with_the_walk(device):
    generator = torch.Generator().manual_seed(0)
    picks = torch.randint(0, 2, (200, 5), generator=generator)
    drafts = torch.randint(0, 2, (200, 4), generator=generator)
    drafted = torch.randint(0, 5, (200,), generator=generator)
    accepted, committed = accept_chains(picks.to(device), drafts.to(device), drafted.to(device, torch.int32))
    for row in range(200):
        tokens = drafts[row, : drafted[row]].tolist()
        count = len(walk(tokens, range(-1, len(tokens) - 1), picks[row].tolist()))
        assert accepted[row] == count
        assert committed[row].tolist() == picks[row, : count + 1].tolist() + [-1] * (4 - count)
    assert set(accepted.tolist()) == {0, 1, 2, 3, 4}


def test_plain_and_idle_rows(device):
    picks = torch.tensor([[3], [4]], device=device)
    drafted = torch.tensor([0, -1], dtype=torch.int32, device=device)
    accepted, committed = accept_chains(picks, picks[:, :0], drafted)
    assert accepted.tolist() == [0, 0]
    assert committed.tolist() == [[3], [-1]]

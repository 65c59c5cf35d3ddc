"""Which masks make a row's next block, and what is left of their tokens, against the host's arithmetic."""

from __future__ import annotations

import pytest
import torch

from glimpse.attention.triton.blocks import Standing, behind, leave
from glimpse.attention.triton.picking import RowSettings, Sample, SampleConfig

GROUPS, SIZE, VOCAB, WIDTH = 3, 2, 40, 24
COUNTS, LENGTHS, LIMITS = [1, 3, 4, 0], [5, 9, 12, 7], [20, 10, 20, 20]
"""One token committed; as many as there are groups, at the row's end; one more; an idle row."""


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def test_the_group_behind_the_last_token_kept():
    hidden, tokens = torch.randn(4 * GROUPS * SIZE, 5), torch.arange(4 * WIDTH).view(4, WIDTH)
    found = behind(hidden, ints(COUNTS), ints(LENGTHS), tokens, GROUPS, SIZE)
    own = hidden.view(4, GROUPS, SIZE, 5)
    assert torch.equal(found.masks[:2], torch.stack([own[0, 0], own[1, 2]]))
    assert found.bonus.tolist() == [row * WIDTH + length - 1 for row, length in enumerate(LENGTHS)]
    assert found.positions.view(4, SIZE).tolist() == [[length, length + 1] for length in LENGTHS]


def picked(top_k):
    """Logits and what was picked of them."""
    draw = torch.Generator().manual_seed(1)
    logits, double = 2 * torch.randn(4 * SIZE, VOCAB, generator=draw), torch.full((4,), 0.7, dtype=torch.float64)
    off = torch.full((4,), torch.inf, dtype=torch.float64)
    sample = Sample(4 * SIZE, VOCAB, "cpu", config=SampleConfig(few=64, room=64))
    settings, owners = RowSettings(double, top_k, off, -off), ints(range(4)).repeat_interleave(SIZE)
    sample(logits, settings, torch.arange(4), torch.arange(4 * SIZE), owners=owners)
    return logits, sample


@pytest.mark.parametrize(("floor", "kept"), [(1e-9, [2, 0, 0, 0]), (0.9, [0, 0, 0, 0])])
def test_blocks_stay_where_there_is_room_and_confidence(floor, kept):
    top_k = torch.tensor([5, 1, 5, 5])
    logits, sample = picked(top_k)
    tokens = torch.full((4, WIDTH), -1)
    rows = Standing(ints(COUNTS), ints(LENGTHS), ints(LIMITS), tokens, ints([9] * 4), top_k)
    out = torch.zeros(4, 2 * SIZE, dtype=torch.int32)
    leave(sample, logits, rows, GROUPS, SIZE, out=out, ahead=SIZE, floor=floor)
    assert rows.drafted.tolist() == kept
    picks = sample.picks.tokens.view(4, SIZE).tolist()
    assert out[:, :SIZE].tolist() == picks, "the host may be told"
    for row, length in enumerate(LENGTHS):
        made = 0 < COUNTS[row] <= GROUPS
        assert tokens[row, length : length + SIZE].tolist() == (picks[row] if made else [-1] * SIZE)


def test_the_host_gets_tokens_and_their_chances():
    """Under the truncated law; of a law that is sure, under the head's own."""
    top_k = torch.tensor([5, 1, 5, VOCAB])
    logits, sample = picked(top_k)
    rows = Standing(ints(COUNTS), ints(LENGTHS), ints(LIMITS), torch.zeros(4, WIDTH).long(), ints([0] * 4), top_k)
    out = torch.zeros(4, 2 * SIZE, dtype=torch.int32)
    leave(sample, logits, rows, GROUPS, SIZE, out=out, ahead=0, floor=0.01)
    assert torch.equal(out[:, :SIZE].flatten().long(), sample.picks.tokens)
    chances = out[:, SIZE:].contiguous().view(torch.float32)
    sure = torch.softmax(logits[SIZE : 2 * SIZE], -1).amax(1)
    torch.testing.assert_close(chances[1], sure)
    torch.testing.assert_close(chances[[0, 2, 3]], sample.picks.probabilities.view(4, SIZE)[[0, 2, 3]])

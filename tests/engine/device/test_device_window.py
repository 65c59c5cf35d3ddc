"""The paper's importance statistic on device rounds against the CPU path's window."""

from __future__ import annotations

import pytest
import torch

from attention.kernels.batches import make_batch
from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.definitions import scores_of, slots_of
from glimpse.cache.recall import ImportanceWindow
from glimpse.engine.device.window import ExactWindow

WINDOW, WIDTH = 4, 48


def weights_of(batch, row, queries, group):
    """[kv_heads, queries, length] of the row's last queries, summed over each group."""
    length = int(batch.lengths[row])
    slots = slots_of(batch.table[row], torch.arange(length), batch.page_size)
    scores = scores_of(batch.q[row * queries : (row + 1) * queries], batch.keys[:, slots])
    last = length - queries + torch.arange(queries)
    scores.masked_fill_((torch.arange(length) > last[:, None])[:, None], -torch.inf)
    return torch.softmax(scores, -1).unflatten(1, (-1, group)).sum(2).transpose(0, 1)


@pytest.mark.parametrize("counts", [[3, 1], [2, 3]])
def test_only_accepted_queries_count_and_the_oldest_leave(counts):
    window = ExactWindow(HeadShape(4, 2, 16), 1, 2, WIDTH, 3, WINDOW, torch.device("cpu"))
    right = [ImportanceWindow(1, 2, WINDOW) for _ in range(2)]
    sums = torch.zeros(1, 2, 2, WIDTH)
    for turn in range(3):
        batch = make_batch([20 + turn, 30 + turn], 3, 4, 2, 16, torch.device("cpu"), seed=turn)
        table = torch.nn.functional.pad(batch.table, (0, 1))
        window.observe(0, batch.q, batch.keys, table, batch.page_size, batch.lengths)
        window.settle(torch.tensor(counts), sums)
        for row, count in enumerate(counts):
            right[row].push(weights_of(batch, row, 3, 2)[None, :, :count])
    for row in range(2):
        torch.testing.assert_close(sums[:, row], right[row].scores(WIDTH), rtol=2e-3, atol=2e-3)


def test_prompts_fade_as_queries_come():
    window = ExactWindow(HeadShape(4, 2, 16), 1, 1, WIDTH, 2, WINDOW, torch.device("cpu"))
    prompt, sums = torch.rand(1, 1, 2, WIDTH), torch.zeros(1, 1, 2, WIDTH)
    window.begin(prompt)
    window.settle(torch.tensor([1]), sums)
    torch.testing.assert_close(sums, prompt * 0.75, rtol=2e-3, atol=2e-3)


def test_idle_rows_leave_zeros():
    batch = make_batch([0, 30], 2, 4, 2, 16, torch.device("cpu"))
    window = ExactWindow(HeadShape(4, 2, 16), 1, 2, WIDTH, 2, WINDOW, torch.device("cpu"))
    sums = torch.ones(1, 2, 2, WIDTH)
    window.observe(0, batch.q, batch.keys, batch.table, batch.page_size, batch.lengths)
    window.settle(torch.tensor([2, 2]), sums)
    assert (sums[:, 0] == 0).all()
    assert (sums[:, 1].sum(-1) > 1).all()

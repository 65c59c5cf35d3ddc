"""Which rows' recall sets a mixed step chooses anew."""

from __future__ import annotations

import torch

from glimpse.attention.triton.mixed import Want
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.core import Core
from glimpse.engine.device.settings import RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from tiny import tiny_decoder


def test_only_rows_that_learn_get_new_sets():
    """Of four rows one drafts, one adds to its scores, one forgets them, and one verified without learning."""
    decoder = tiny_decoder(num_hidden_layers=1)
    pool = PagePool(CacheShape(1, 2, 8), 16, 16, decoder.dtype)
    rows, recall = DeviceRows.empty(4, 64, 3, 4, "cpu"), DeviceRecall.empty(1, 4, 6, 2, 64, 12, "cpu")
    budget = RecallBudget(share=0.1, floor=12, sinks=2, recent=6)
    core = Core(decoder, pool, rows, recall, RoundSettings(budget), 97)
    rows.table.copy_(torch.arange(16).view(4, 4))
    recall.slots.fill_(-7)
    recall.count.fill_(9)
    recall.base.fill_(8)
    recall.scores[:, :, :, 10] = 2.0
    recall.fresh[:, :, :, 20] = 1.0
    core.scored.copy_(torch.tensor([40, 40, 40, 40]))
    core.known.copy_(torch.tensor([0, 42, 43, 44]))
    core.want.copy_(torch.tensor([Want.DRAFT, Want.ADD, Want.ANEW, Want.PLAIN]))
    core.choose_wanted()
    assert recall.base.tolist() == [8, 42, 43, 8]
    assert recall.count.tolist() == [9, 12, 12, 9]
    assert (recall.slots[:, [0, 3]] == -7).all()
    # Both of the best are in the set of the row that adds; the other's old scores are gone.
    assert {64 + 10, 64 + 20} <= set(recall.slots[0, 1, 0].tolist())
    assert recall.scores[0, :, 0, 10].tolist() == [2.0, 1.0, 0.0, 2.0]
    assert recall.scores[0, :, 0, 20].tolist() == [0.0, 1.0, 1.0, 0.0]

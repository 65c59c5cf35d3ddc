"""Attention of draft rows against its definition."""

from __future__ import annotations

import pytest
import torch

from attention.kernels.batches import TOLERANCE, error, make_batch
from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.recalled import Recalled, RecalledConfig
from glimpse.errors import ArgumentError


def recall_of(batch, budget, counts, bases):
    """Random slots below the base, other ones for each head, sorted by position; what lies past the count is absurd."""
    rows, kv_heads = len(batch.lengths), batch.keys.shape[0]
    selected = torch.full((rows, kv_heads, budget), -(1 << 30), dtype=torch.int32, device=batch.q.device)
    generator = torch.Generator().manual_seed(1)
    for row in range(rows):
        for head in range(kv_heads):
            positions = torch.randperm(max(bases[row], 1), generator=generator)[: counts[row]].sort().values
            slots = definitions.slots_of(batch.table[row], positions.to(batch.q.device), batch.page_size)
            selected[row, head, : counts[row]] = slots.int()
    counts, bases = (torch.tensor(x, dtype=torch.int32, device=batch.q.device) for x in (counts, bases))
    return selected, counts, bases


def both(batch, recall, config):
    shape = HeadShape(batch.q.shape[1], batch.keys.shape[0], batch.q.shape[2])
    attention = Recalled(shape, len(batch.lengths), batch.page_size, batch.q.device, config)
    q, keys, values, table, lengths, page_size = batch.wide()
    right = definitions.recalled(q, keys, values, *recall, lengths, table, page_size)
    outs = []
    for _ in range(2):  # the second launch finds the counters as the first one left them
        attention.part_out.fill_(torch.nan)
        attention.part_lse.fill_(torch.nan)
        out = torch.full_like(batch.q, torch.nan)
        q = torch.cat([batch.q, torch.full_like(batch.q, torch.nan)], 1)[:, : batch.q.shape[1]]
        outs.append(attention(q, batch.keys, batch.values, *recall, batch.lengths, batch.table, out=out))
    return outs, right


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (6, 2), (4, 1), (5, 5)])
def test_selected_slots_and_tail(heads, kv_heads, pieces, device, dtype):
    batch = make_batch([80, 0, 33, 5], 1, heads, kv_heads, 16, device, dtype)
    recall = recall_of(batch, 40, [40, 0, 17, 0], [60, 0, 30, 0])
    outs, right = both(batch, recall, RecalledConfig(block=16, pieces=pieces))
    for out in outs:
        assert error(out, right) < TOLERANCE[dtype]
        assert (out[1] == 0).all()


@pytest.mark.parametrize("pieces", [1, 2])
def test_all_positions_equal_dense_attention(pieces, device, dtype):
    batch = make_batch([50], 1, 6, 2, 16, device, dtype)
    recall = recall_of(batch, 49, [49], [49])
    right, _, _ = definitions.paged(*batch.wide())
    outs, _ = both(batch, recall, RecalledConfig(block=16, pieces=pieces))
    assert error(outs[0], right) < TOLERANCE[dtype]


def test_pieces_must_be_a_power_of_two():
    with pytest.raises(ArgumentError, match="power of two"):
        Recalled(HeadShape(4, 2, 16), 1, 16, "cpu", RecalledConfig(pieces=3))

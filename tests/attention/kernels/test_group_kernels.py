"""Mask groups on rows against a plain softmax over what each mask reads."""

from __future__ import annotations

import pytest
import torch

from attention.kernels.batches import error, make_batch
from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.definitions import mixed_by, scores_of, slots_of
from glimpse.attention.triton.groups import Grouped
from glimpse.errors import ArgumentError

CASES = [
    # groups, size, lengths (0: idle), each row's own tokens, heads
    (1, 4, [37, 0, 5, 1], [1, 1, 1, 1], (3, 1, 8)),
    (5, 4, [90, 6, 0, 33], [5, 2, 1, 4], (2, 1, 16)),
    (8, 8, [70, 9, 200], [8, 3, 6], (2, 1, 8)),
    (1, 3, [40, 12, 7], [6, 1, 7], (4, 2, 8)),  # more drafts than groups: those behind its token are unread
]


def right(batch, q, own_keys, own_values, groups, size, counts):
    """[count, heads, dim] of every mask whose group stands behind a token there is, and which those are."""
    out, real = torch.zeros_like(q, dtype=torch.float64), torch.zeros(len(q), dtype=torch.bool)
    for row, (length, own) in enumerate(zip(batch.lengths.tolist(), counts, strict=True)):
        for group in range(min(groups, own) if length else 0):
            slots = slots_of(batch.table[row], torch.arange(length - own + group + 1), batch.page_size)
            begin = (row * groups + group) * size
            mine = slice(begin, begin + size)
            keys = torch.cat([batch.keys[:, slots], own_keys[:, mine]], 1).double()
            values = torch.cat([batch.values[:, slots], own_values[:, mine]], 1).double()
            out[mine] = mixed_by(scores_of(q[mine].double(), keys), values)
            real[mine] = True
    return out, real


@pytest.mark.parametrize(("groups", "size", "lengths", "counts", "heads"), CASES)
def test_a_mask_reads_up_to_its_groups_token_and_its_group(groups, size, lengths, counts, heads, monkeypatch):
    monkeypatch.setattr("glimpse.attention.triton.attention.processors", lambda device: 4)
    batch = make_batch(lengths, 1, *heads, torch.device("cpu"))
    draw = torch.Generator().manual_seed(3)
    count = len(lengths) * groups * size
    q = torch.randn(count, heads[0], heads[2], generator=draw)
    own_keys, own_values = torch.randn(2, heads[1], count, heads[2], generator=draw).unbind()
    grouped = Grouped(HeadShape(*heads), len(lengths), groups, size, batch.page_size, "cpu")
    own = torch.tensor(counts, dtype=torch.int32)
    grouped.plan(batch.lengths, own, batch.lengths - own + 1)
    found = grouped(q, own_keys, own_values, batch.keys, batch.values, batch.table, torch.empty_like(q))
    wanted, real = right(batch, q, own_keys, own_values, groups, size, counts)
    assert error(found[real], wanted[real]) < 1e-6
    assert torch.isfinite(found).all()


@pytest.mark.parametrize(("groups", "size"), [(0, 4), (9, 8), (65, 1)])
def test_masks_beyond_the_bits_are_refused(groups, size):
    with pytest.raises(ArgumentError, match=f"{groups} groups of {size} mask tokens; a row takes 1 to 64 masks"):
        Grouped(HeadShape(2, 1, 8), 1, groups, size, 16, "cpu")

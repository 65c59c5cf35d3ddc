"""Rows that move and grow: nothing of them is left behind, and the device knows of every page."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.seats import Seat, Seats
from glimpse.engine.device.state import DeviceRecall, DeviceRows


def columns(rows: DeviceRows) -> dict[str, torch.Tensor]:
    """All that a row consists of, but whether it is active and what is only a report."""
    own = {f"settings.{field.name}": getattr(rows.settings, field.name) for field in fields(rows.settings)}
    names = ("tokens", "length", "limit", "table", "seeds", "drafted", "entropy", "confidence")
    return own | {name: getattr(rows, name) for name in names}


def test_a_row_that_moves_takes_all_of_itself_along():
    rows = DeviceRows.empty(3, 20, 4, 5, "cpu")
    for place, held in enumerate(columns(rows).values()):
        held.copy_(torch.arange(held.numel()).view(held.shape) + 100 * place)
    rows.active.copy_(torch.tensor([1, 0, 1]))
    right = {name: held[2].clone() for name, held in columns(rows).items()}
    rows.move(2, 0)
    for name, held in columns(rows).items():
        assert torch.equal(held[0], right[name]), name
    assert rows.active.tolist() == [1, 0, 0]


def test_recall_sets_move_with_their_row():
    recall = DeviceRecall.empty(2, 3, 4, 2, 16, 5, "cpu")
    moved = (recall.scores, recall.slots, recall.reference)
    for held in (*moved, recall.count, recall.base):
        held.copy_(torch.arange(held.numel()).view(held.shape) % 100)
    right = [held[:, 2].clone() for held in moved]
    recall.move(2, 1)
    assert all(torch.equal(held[:, 1], own) for held, own in zip(moved, right, strict=True))
    assert recall.count[1] == recall.count[2]
    assert recall.base[1] == recall.base[2]


class Rows:
    """What `Seats.extend` needs of a core."""

    def __init__(self, table: torch.Tensor) -> None:
        self.rows, self.table = self, table


@pytest.mark.parametrize("tokens", [16, 17, 40, 64])
def test_pages_that_a_row_grows_by_are_in_its_table(tokens):
    pool = PagePool(CacheShape(1, 1, 8), 9, 16, torch.float32)
    sequence, table = Sequence(pool), torch.full((2, 5), -1, dtype=torch.int32)
    pool.allocate(1, 1)  # so that its pages do not lie together
    sequence.reserve(10)
    table[1, 0] = sequence.pages[0]
    seats = Seats(Rows(table))
    seats.taken = [None, Seat(None, 0, sequence)]
    seats.extend(1, tokens)
    count = pool.pages_for(tokens)
    assert table[1].tolist() == [*sequence.pages, *[-1] * (5 - count)]
    assert len(sequence.pages) == count
    assert (table[0] == -1).all()

"""Where drafts looked, by parts of the context."""

from __future__ import annotations

import pickle

import pytest
import torch

from glimpse.cache.reads import Reads


def reads(*sets: tuple[list[list[list[int]]], int]) -> Reads:
    counted = Reads()
    for positions, base in sets:
        counted.add(torch.tensor(positions), base)
    return counted


def test_nothing_read_has_no_shares():
    assert Reads().shares(64) is None


def test_every_layer_and_head_counts():
    # Two layers of one head: positions 0, 1 and 0, 7 of eight.
    assert reads(([[[0, 1]], [[0, 7]]], 8)).shares(4) == [0.75, 0, 0, 0.25]


def test_the_context_grows_between_rows():
    # Position 3 of four was the end; of eight it is the middle.
    assert reads(([[[0, 3]]], 4), ([[[3, 7]]], 8)).shares(2) == [0.75, 0.25]


def test_a_context_shorter_than_its_parts_is_spread():
    assert reads(([[[1]]], 2)).shares(4) == [0, 0, 0.5, 0.5]


def test_uneven_parts_add_up():
    shares = reads(([[list(range(100))]], 100)).shares(64)
    assert shares == pytest.approx([1 / 64] * 64)


def test_rows_that_share_a_set_count_each():
    shared, counted = torch.tensor([[[0]]]), Reads()
    counted.add(shared, 4)
    counted.add(shared, 4)
    counted.add(torch.tensor([[[3]]]), 4)
    assert counted.shares(4) == pytest.approx([2 / 3, 0, 0, 1 / 3])


def test_outputs_that_have_them_can_be_sent_elsewhere():
    counted = reads(([[[0, 1]], [[0, 7]]], 8))
    assert pickle.loads(pickle.dumps(counted)).shares(4) == counted.shares(4)

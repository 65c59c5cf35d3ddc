"""For how many rows and tokens graphs are made."""

from __future__ import annotations

import pytest

from glimpse.attention.triton.mixed import Want
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.core import Core
from glimpse.engine.device.launch import Launcher, token_bucket
from glimpse.engine.device.settings import Learn, RoundSettings
from glimpse.engine.device.state import DeviceRows
from tiny import tiny_decoder

MOST = 14


@pytest.fixture(scope="module")
def core():
    """Six rows without recall sets."""
    decoder = tiny_decoder(num_hidden_layers=1)
    pool = PagePool(CacheShape(1, 2, 8), 4, 16, decoder.dtype)
    return Core(decoder, pool, DeviceRows.empty(6, 64, MOST, 4, "cpu"), None, RoundSettings(RecallBudget()), 97)


def test_drafts_of_any_length_share_few_widths(core):
    launcher = Launcher(core, exact=False)
    assert [launcher.queries(drafted) for drafted in range(MOST + 1)] == [
        1,
        2,
        3,
        5,
        5,
        7,
        7,
        9,
        9,
        13,
        13,
        13,
        13,
        15,
        15,
    ]


def test_known_lengths_have_their_own_width(core):
    launcher = Launcher(core, exact=True)
    assert [launcher.queries(drafted) for drafted in (0, 3, 10, MOST)] == [1, 4, 11, MOST + 1]


def test_rows_share_few_buckets_up_to_all_of_them(core):
    launcher = Launcher(core, exact=True)
    assert [launcher._bucket(rows) for rows in range(1, 7)] == [1, 2, 4, 4, 6, 6]


def test_shapes_not_used_for_longest_are_given_up(core, monkeypatch):
    monkeypatch.setattr("glimpse.engine.device.launch.WORKS", 2)
    launcher = Launcher(core, exact=True)
    kind = "verify", Learn.NOTHING
    for rows in (1, 2, 1, 4):
        (key, _) = launcher._step(kind, (rows, rows, 1))
        launcher.graphs.make((key, lambda: None))
    assert list(launcher._works) == [(1, 1), (4, 1)]
    assert launcher.graphs.shapes(kind) == [(1, 1, 1), (4, 4, 1)]


def test_tokens_of_mixed_steps_share_few_sizes():
    sizes = sorted({token_bucket(tokens) for tokens in range(1, 130)})
    assert sizes == [1, 2, 4, 8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160]
    assert all(token_bucket(tokens) >= tokens for tokens in range(1, 2000))
    assert max(token_bucket(tokens) / tokens for tokens in range(16, 2000)) <= 1.25


def test_a_mixed_step_has_room_for_all_that_rows_may_feed(core):
    wants, pending = (Want.DRAFT, Want.ADD, Want.PLAIN, Want.IDLE, Want.ANEW), (5, 6, 7, 8, 0)
    assert [want.tokens(have) for want, have in zip(wants, pending, strict=True)] == [1, 7, 1, 0, 1]
    assert Launcher(core, exact=False).tokens(wants, pending) == 16


def test_the_largest_steps_are_made_ready_first(core):
    """Six rows: one, four, all of them; drafts of the host, of any length."""
    keys = [key for key, _ in Launcher(core, exact=False).ready(MOST, mixes=False)]
    assert [shape for _, shape in keys] == [
        (rows * queries, rows, queries) for rows in (6, 4, 1) for queries in (1, 3, 5, 9, MOST + 1)
    ]
    assert {kind for kind, _ in keys} == {("verify", Learn.NOTHING)}


def test_drafts_of_one_length_have_few_steps(core):
    keys = [key for key, _ in Launcher(core, exact=True).ready(4, mixes=False)]
    assert {shape[2] for _, shape in keys} == {1, 5}

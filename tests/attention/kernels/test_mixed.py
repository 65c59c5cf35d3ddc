"""What a mixed step does to the rows around its forward, case by case."""

from __future__ import annotations

import pytest
import torch

from glimpse.attention.triton.mixed import Want, feed_mixed
from glimpse.attention.triton.rows import Verdict, commit, record

WIDTH, PAGE, MOST, TOKENS = 24, 4, 3, 12


def ints(device, *values):
    return torch.tensor(values, dtype=torch.int32, device=device)


class Rows:
    """Six rows: one verifies two drafts, one drafts its second, one steps plainly over its draft, one has no room to
    draft, one is idle, one verifies nothing but wants the importance."""

    def __init__(self, device):
        self.tokens = torch.arange(6 * WIDTH, device=device).view(6, WIDTH)
        self.length, self.drafted = ints(device, 9, 5, 12, 7, 4, 15), ints(device, 2, 1, 1, 0, 3, 0)
        self.active, self.limit = ints(device, 1, 1, 1, 1, 0, 1), ints(device, 24, 24, 24, 8, 24, 16)
        self.want = ints(device, Want.ADD, Want.DRAFT, Want.PLAIN, Want.DRAFT, Want.ADD, Want.ANEW)
        self.table = torch.randperm(36, generator=torch.Generator().manual_seed(0)).view(6, 6).to(device, torch.int32)
        self.embedding = torch.randn(6 * WIDTH, 20, generator=torch.Generator().manual_seed(1)).to(device)
        self.verdict = Verdict(
            ints(device, *[7] * 6), torch.full((6, MOST + 1), -5, device=device),
            *(ints(device, *[7] * 6) for _ in range(3)),
        )  # fmt: skip

    def feed(self, count=TOKENS):
        return feed_mixed(
            self.tokens, self.length, self.drafted, self.limit, self.active, self.want, self.table, self.embedding,
            count, MOST + 1, PAGE,
        )  # fmt: skip


@pytest.fixture
def rows(device):
    return Rows(device)


def test_every_row_feeds_what_it_wants(rows):
    made = rows.feed()
    fed, owners = made.fed, [0, 0, 0, 1, 2, 5] + [-1] * 6
    places = [8, 9, 10, 5, 11, 14]
    assert made.ragged.owners.tolist() == owners
    assert made.ragged.firsts.tolist() == [0, 3, 4, 5, 5, 5]
    assert fed.positions.tolist()[:6] == places
    assert fed.ids.tolist()[:6] == [owner * WIDTH + place for owner, place in zip(owners, places, strict=False)]
    slots = [
        int(rows.table[owner, place // PAGE]) * PAGE + place % PAGE
        for owner, place in zip(owners, places, strict=False)
    ]
    assert fed.slots.tolist() == slots + [-1] * 6
    assert (fed.embedded == rows.embedding[fed.ids]).all()
    assert fed.counts.tolist() == [3, 0, 1, 0, 0, 1]
    assert fed.lengths.tolist() == [11, 0, 12, 0, 0, 15]
    assert made.recalled.tolist() == [0, 6, 0, 0, 0, 0]


def test_rows_beyond_the_room_are_idle(rows):
    made = rows.feed(4)
    assert made.ragged.owners.tolist() == [0, 0, 0, 1]
    assert made.fed.counts.tolist() == [3, 0, 0, 0, 0, 0]
    assert made.fed.lengths.tolist() == [11, 0, 0, 0, 0, 0]


def test_only_rows_that_draft_are_recorded(rows, device):
    made, before = rows.feed(), rows.tokens.clone()
    numbers, picks = torch.arange(TOKENS, device=device) / 16, torch.arange(TOKENS, device=device) + 900
    confidence, entropy = torch.zeros(6, MOST, device=device), torch.zeros(6, MOST, device=device)
    record(
        rows.tokens, made.fed.positions, picks, numbers, 2 * numbers, rows.drafted, made.recalled, confidence, entropy,
        ragged=made.ragged,
    )  # fmt: skip
    before[1, 6] = 903
    assert (rows.tokens == before).all()
    assert rows.drafted.tolist() == [2, 2, 1, 0, 3, 0]
    assert confidence.count_nonzero() == 1
    assert (confidence[1, 1], entropy[1, 1]) == (3 / 16, 3 / 8)


def test_only_rows_that_verify_move_on(rows, device):
    made, before = rows.feed(), rows.tokens.clone()
    fed = made.fed
    picks = fed.ids + 1
    picks[1] = 800  # row 0: the first draft is accepted, the second is not
    scored, known = commit(
        rows.tokens, fed, picks, torch.zeros(TOKENS, device=device), rows.length, rows.drafted, rows.active,
        rows.limit, rows.verdict, ragged=made.ragged, queries=MOST + 1,
    )  # fmt: skip
    before[0, 10], before[2, 12], before[5, 15] = 800, 2 * WIDTH + 12, 5 * WIDTH + 15
    assert (rows.tokens == before).all()
    assert rows.verdict.counts.tolist() == [2, 0, 1, 0, 0, 1]
    assert rows.verdict.judged.tolist() == [2, 0, 0, 0, 0, 0]
    assert rows.verdict.broken.tolist() == [0] * 6
    assert rows.verdict.committed[0, :2].tolist() == [9, 800]
    assert rows.length.tolist() == [11, 5, 13, 7, 4, 16]
    assert rows.drafted.tolist() == [0, 1, 0, 0, 3, 0]
    assert rows.active.tolist() == [1, 1, 1, 1, 0, 0]  # row 5 has reached its limit
    assert known.tolist() == [10, 0, 12, 0, 0, 0]
    assert [value for value, count in zip(scored.tolist(), fed.counts.tolist(), strict=True) if count] == [8, 11, 14]

"""What a step does to the rows around its forward, case by case."""

from __future__ import annotations

import pytest
import torch

from glimpse.attention.triton.rows import Verdict, commit, feed, record

WIDTH, PAGE, MOST = 24, 4, 3


class Rows:
    """Three rows of lengths 9, 5, 20, the second idle; pages in scattered order."""

    def __init__(self, device):
        def ints(*values):
            return torch.tensor(values, dtype=torch.int32, device=device)

        self.tokens = torch.arange(3 * WIDTH, device=device).view(3, WIDTH)
        self.length, self.drafted, self.active = ints(9, 5, 20), ints(2, 1, 0), ints(1, 0, 1)
        self.limit = ints(11, 20, 24)
        self.verdict = Verdict(
            ints(7, 7, 7), torch.full((3, MOST + 1), -5, device=device), *(ints(7, 7, 7) for _ in range(3))
        )
        self.table = torch.randperm(18, generator=torch.Generator().manual_seed(0)).view(3, 6).to(device, torch.int32)
        self.embedding = torch.randn(3 * WIDTH, 20, generator=torch.Generator().manual_seed(1)).to(device)

    def feed(self, queries, drafting=False, **more):
        drafted = self.drafted if drafting else None
        return feed(
            self.tokens, self.length, drafted, self.active, self.table, self.embedding, queries, PAGE, **more
        )  # fmt: skip

    def commit(self, fed, picks, entropies=None):
        entropies = torch.zeros(picks.shape, device=picks.device) if entropies is None else entropies
        return commit(
            self.tokens, fed, picks, entropies, self.length, self.drafted, self.active, self.limit, self.verdict
        )


@pytest.fixture
def rows(device):
    return Rows(device)


def test_a_step_feeds_from_the_last_committed_token_on(rows):
    fed = rows.feed(3)
    positions = [8, 9, 10, 4, 5, 6, 19, 20, 21]
    assert fed.positions.tolist() == positions
    assert fed.ids.tolist() == [position + WIDTH * (index // 3) for index, position in enumerate(positions)]
    assert (fed.embedded == rows.embedding[fed.ids]).all()
    slots = [int(rows.table[index // 3, p // PAGE]) * PAGE + p % PAGE for index, p in enumerate(positions)]
    assert fed.slots.tolist() == [*slots[:3], -1, -1, -1, *slots[6:]]
    assert fed.lengths.tolist() == [11, 0, 22]


def test_a_row_that_never_held_anything_feeds_its_first_places(rows):
    """Rows are padded to a power of two: what an idle one feeds is read, if not kept, and must lie somewhere."""
    rows.length[:] = 0
    rows.active[:] = 0
    fed = rows.feed(3)
    assert fed.positions.tolist() == [0, 0, 1] * 3
    assert fed.ids.tolist() == [0, 0, 1, WIDTH, WIDTH, WIDTH + 1, 2 * WIDTH, 2 * WIDTH, 2 * WIDTH + 1]
    assert (fed.slots == -1).all()
    assert (fed.lengths == 0).all()


def test_a_draft_step_feeds_what_was_drafted_last(rows):
    fed = rows.feed(1, drafting=True)
    assert fed.positions.tolist() == [10, 5, 19]
    assert fed.lengths.tolist() == [11, 0, 20]


def test_positions_end_with_the_width(rows):
    assert rows.feed(6).positions.tolist()[-6:] == [19, 20, 21, 22, 23, 23]


def test_drafts_are_recorded_for_active_rows(rows, device):
    fed, before = rows.feed(1, drafting=True), rows.tokens.clone()
    numbers = torch.tensor([0.5, 0.6, 0.7], device=device)
    confidence, entropy = torch.zeros(3, MOST, device=device), torch.zeros(3, MOST, device=device)
    picks = torch.tensor([90, 91, 92], device=device)
    record(
        rows.tokens, fed.positions, picks, numbers, 2 * numbers, rows.drafted, rows.active, confidence, entropy
    )  # fmt: skip
    before[0, 11], before[2, 20] = 90, 92
    assert (rows.tokens == before).all()
    assert rows.drafted.tolist() == [3, 1, 1]
    right = torch.zeros(3, MOST)
    right[0, 2], right[2, 0] = 0.5, 0.7
    torch.testing.assert_close(confidence.cpu(), right)
    torch.testing.assert_close(entropy.cpu(), 2 * right)


def test_picks_are_kept_up_to_the_first_that_differs(rows, device):
    fed, before = rows.feed(3), rows.tokens.clone()
    picks = fed.ids.view(3, 3).roll(-1, 1).clone()  # every draft agrees; the last pick is new
    picks[0, 1], picks[:, 2] = 99, 77  # row 0: the second differs
    scored, known = rows.commit(fed, picks.flatten())
    assert rows.verdict.counts.tolist() == [2, 0, 3]
    assert rows.length.tolist() == [11, 5, 23]
    before[0, 10], before[2, 22] = 99, 77
    assert (rows.tokens == before).all()
    assert rows.verdict.committed[:, :3].tolist() == picks.tolist()
    assert rows.drafted.tolist() == [0, 0, 0]
    assert rows.verdict.judged.tolist() == [2, 0, 2]
    assert rows.active.tolist() == [0, 0, 1]  # row 0 has reached its limit
    assert scored.tolist() == [8, 4, 19]
    assert known.tolist() == [0, 0, 22]


def test_a_row_without_room_for_a_draft_and_the_targets_token_feeds_none(rows):
    for limit, lengths in [(13, [11, 0, 20]), (12, [0, 0, 20])]:
        rows.limit[0] = limit
        fed = rows.feed(1, drafting=True, limit=rows.limit)
        assert fed.lengths.tolist() == lengths
        assert (fed.slots >= 0).tolist() == [length > 0 for length in lengths]


def test_rows_feed_their_own_drafts_and_no_more(rows, device):
    fed = rows.feed(4, own=rows.drafted)
    assert fed.counts.tolist() == [3, 2, 1]
    assert fed.lengths.tolist() == [11, 0, 20]
    assert (fed.slots.view(3, 4) >= 0).sum(1).tolist() == [3, 0, 1]
    picks = fed.ids.view(3, 4).roll(-1, 1).flatten()  # every pick agrees with what lies behind, drafted or not
    rows.commit(fed, picks)
    assert rows.verdict.counts.tolist() == [3, 0, 1]
    assert rows.verdict.judged.tolist() == [2, 0, 0]


def test_a_row_whose_logits_are_not_finite_commits_nothing(rows, device):
    rows.limit.fill_(24)
    fed = rows.feed(2)
    picks = fed.ids.view(3, 2).roll(-1, 1).flatten()
    entropies = torch.zeros(6, device=device)
    entropies[1], entropies[4] = torch.nan, torch.inf
    picks[0] += 1  # row 0 rejects its draft: what lies behind it does not count
    _, known = rows.commit(fed, picks, entropies)
    assert rows.verdict.broken.tolist() == [0, 0, 1]
    assert rows.verdict.counts.tolist() == [1, 0, 0]
    assert rows.length.tolist() == [10, 5, 20]
    assert rows.drafted.tolist() == [0, 0, 0]
    assert known.tolist() == [9, 0, 19]

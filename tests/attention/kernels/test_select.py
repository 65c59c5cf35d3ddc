"""Top-k selection against a stable sort."""

from __future__ import annotations

import pytest
import torch

from glimpse.attention.triton import definitions
from glimpse.attention.triton.select import Selection, capacity
from glimpse.errors import ArgumentError

LENGTHS, BUDGETS = [100, 0, 20, 65], [30, 20, 24, 17]


class Case:
    """Rows over scattered pages with random scores, 2 layers and 3 heads."""

    def __init__(self, device, lengths=LENGTHS, budgets=BUDGETS, seed=0):
        self.device, generator = device, torch.Generator().manual_seed(seed)
        rows, width = len(lengths), 112
        self.scores = torch.rand(2, rows, 3, width, generator=generator).pow(8).to(device, torch.bfloat16)
        self.lengths, self.budgets = lengths, budgets
        self.table = torch.randperm(rows * 7, generator=generator).view(rows, 7).to(device, torch.int32)
        self.selected, self.counts = capacity(rows, 3, 2, max(budgets), device)
        self.selected.fill_(-1)
        self.counts.fill_(7)

    def ints(self, values):
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def run(self, selection, scored=None, **options):
        scored = self.ints(scored or self.lengths)
        lengths, budgets = self.ints(self.lengths), self.ints(self.budgets)
        selection(self.scores, scored, lengths, budgets, self.table, self.selected, self.counts, **options)

    def check(self, scores, sinks, recent):
        for row, (length, budget) in enumerate(zip(self.lengths, self.budgets, strict=True)):
            count = min(length, budget)
            assert self.counts[row] == count
            for segment, found in zip(scores[:, row].flatten(0, 1), self.selected[:, row].flatten(0, 1), strict=True):
                positions = definitions.selection(segment[:length], length, budget, sinks, recent)
                right = definitions.slots_of(self.table[row], positions, 16)
                assert found[:count].tolist() == right.tolist()
                assert (found[count:] == -1).all()


@pytest.mark.parametrize(("resident", "digit", "block"), [(128, 6, 32), (0, 5, 32), (0, 6, 128), (0, 8, 32)])
def test_sinks_recent_and_the_best_of_the_rest(resident, digit, block, device):
    case = Case(device)
    case.run(Selection(16, sinks=2, recent=5, resident=resident, block=block, digit=digit, warps=4))
    case.check(case.scores, 2, 5)


@pytest.mark.parametrize("resident", [0, 128])
def test_equal_scores_go_to_the_lowest_positions(resident, device):
    case = Case(device)
    case.scores = (case.scores * 4).round() / 4  # mostly zeros, and a few values many times
    case.run(Selection(16, sinks=4, recent=3, resident=resident, block=32, warps=4))
    case.check(case.scores, 4, 3)


def test_no_room_beside_sinks_and_recent(device):
    case = Case(device, budgets=[7, 7, 7, 7])
    case.run(Selection(16, sinks=3, recent=4, warps=4))
    case.check(case.scores, 3, 4)


def test_positions_without_a_score_count_as_zero(device):
    case = Case(device)
    case.run(Selection(16, sinks=0, recent=0, warps=4), scored=[90, 0, 10, 65])
    for row, scored in enumerate([90, 0, 10, 65]):
        case.scores[:, row, :, scored:] = 0
    case.check(case.scores, 0, 0)


@pytest.mark.parametrize("resident", [0, 128])
def test_running_scores_decay(resident, device):
    case = Case(device)
    running = torch.rand(2, 4, 3, 112, generator=torch.Generator().manual_seed(5)).to(device, torch.bfloat16)
    running[:, 2] = torch.nan  # a row's first selection: what it finds is another request's
    decays = torch.tensor([0.5, 0.5, 0.0, 0.9], device=device)
    right = (running.float().nan_to_num(0.0) * decays[:, None, None] + case.scores.float()).bfloat16()
    for row, scored in enumerate([90, 0, 15, 65]):
        right[:, row, :, scored:] = 0
    selection = Selection(16, sinks=2, recent=5, resident=resident, block=32, warps=4)
    case.run(selection, scored=[90, 0, 15, 65], running=running, decays=decays)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(running[:, row, :, :length], right[:, row, :, :length])
    case.check(running, 2, 5)


@pytest.mark.parametrize("resident", [0, 128])
def test_scores_that_are_no_numbers_count_as_zero(resident, device):
    case = Case(device)
    case.scores[:, 0, :, 50:60], case.scores[:, 3, :, 30:33] = torch.nan, torch.inf
    case.run(Selection(16, sinks=2, recent=5, resident=resident, block=32, warps=4))
    case.scores[:, 0, :, 50:60] = 0
    case.check(case.scores, 2, 5)


@pytest.mark.parametrize("page_size", [1, 2])
def test_small_pages(page_size, device):
    case = Case(device, lengths=[10], budgets=[6])
    case.table = torch.randperm(16, generator=torch.Generator().manual_seed(1))[:10].view(1, 10).to(device, torch.int32)
    case.run(Selection(page_size, sinks=1, recent=2, warps=4))
    for segment, found in zip(case.scores[:, 0].flatten(0, 1), case.selected[:, 0].flatten(0, 1), strict=True):
        positions = definitions.selection(segment[:10], 10, 6, 1, 2)
        assert found.tolist() == definitions.slots_of(case.table[0], positions, page_size).tolist()


@pytest.mark.parametrize(("width", "dtype"), [(112, torch.float16), (111, torch.bfloat16)])
def test_scores_of_another_kind_are_refused(width, dtype, device):
    case = Case(device)
    case.scores = torch.zeros(2, 4, 3, width, dtype=dtype, device=device)
    with pytest.raises(ArgumentError, match="give bfloat16 or float32, an even number"):
        case.run(Selection(16))


def test_what_is_always_selected_must_fit(device):
    case = Case(device)
    with pytest.raises(ArgumentError, match="cannot hold 20 first and 20 last"):
        case.run(Selection(16, sinks=20, recent=20))

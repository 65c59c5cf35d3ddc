import pytest
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import PAGE, RECENT_PAGES, ImportanceWindow, RecallBudget, recall, select, select_pages
from glimpse.cache.sequence import Sequence
from glimpse.errors import ArgumentError

SMALL = RecallBudget(share=0.1, floor=8, sinks=2, recent=3)


def test_budget_is_a_share_with_a_floor():
    budget = RecallBudget(share=0.1, floor=256)
    assert [budget.positions(n) for n in (0, 100, 256, 2000, 7900)] == [0, 100, 256, 256, 790]
    with pytest.raises(ArgumentError, match="budget 0"):
        RecallBudget(share=0)


def test_sinks_recent_and_the_best_of_the_rest():
    scores = torch.zeros(1, 2, 40)
    scores[0, 0, [10, 20, 30]] = 1.0
    scores[0, 1, [11, 21, 31]] = 1.0
    scores[0, :, 0] = 9.0
    chosen = select(scores, SMALL)
    assert chosen[0, 0].tolist() == [0, 1, 10, 20, 30, 37, 38, 39]
    assert chosen[0, 1].tolist() == [0, 1, 11, 21, 31, 37, 38, 39]


def test_sets_are_sorted_and_unique_at_every_length():
    torch.manual_seed(0)
    for length in range(1, 120):
        chosen = select(torch.rand(2, 2, length), SMALL)
        assert chosen.shape[-1] == SMALL.positions(length)
        assert (chosen.diff() > 0).all()
        assert chosen.min() >= 0
        assert chosen.max() < length


@pytest.mark.parametrize(
    "budget", [RecallBudget(), RecallBudget(share=0.01, floor=0), RecallBudget(share=1.0, floor=0)]
)
def test_the_budgets_of_many_rows_are_those_of_each(budget):
    lengths = [0, 1, 35, 36, 255, 300, 2560, 2561, 7900, 32000]
    assert budget.positions_of(torch.tensor(lengths, dtype=torch.int32)).tolist() == list(
        map(budget.positions, lengths)
    )


def test_a_budget_as_long_as_the_context_gives_all():
    assert select(torch.rand(1, 1, 8), SMALL)[0, 0].tolist() == list(range(8))
    assert select(torch.rand(1, 1, 50), RecallBudget(share=1.0))[0, 0].tolist() == list(range(50))


def test_a_budget_of_sinks_and_recent_positions_only():
    assert select(torch.rand(1, 1, 40), RecallBudget(share=0.01, floor=0, sinks=2, recent=3)).tolist() == [
        [[0, 1, 37, 38, 39]]
    ]


def weights(*positions, length):
    """One query that looks at these positions only."""
    row = torch.zeros(1, 1, 1, length)
    row[..., list(positions)] = 1 / len(positions)
    return row


def test_a_dropped_position_comes_back():
    window = ImportanceWindow(1, 1, window=2)
    window.push(weights(10, length=40))
    assert 10 in select(window.scores(40), SMALL)[0, 0]
    for _ in range(2):
        window.push(weights(20, 21, 22, length=40))
    assert 10 not in select(window.scores(40), SMALL)[0, 0]
    window.push(weights(10, length=41))
    assert 10 in select(window.scores(41), SMALL)[0, 0]


def test_window_spans_rounds_of_any_size():
    """Sixteen queries in rounds of 1, 3, 17, 2, ... give the same scores as the last sixteen rows summed at once."""
    torch.manual_seed(1)
    window, rows, length = ImportanceWindow(2, 3, window=16), [], 20
    for size in (5, 1, 3, 17, 2, 1, 1, 16, 4, 9):
        length += size
        pushed = torch.rand(2, 3, size, length)
        window.push(pushed)
        rows += [torch.nn.functional.pad(row, (0, 400 - length)) for row in pushed.unbind(2)]
        want = torch.stack(rows[-16:]).sum(0)[..., :length]
        torch.testing.assert_close(window.scores(length), want, atol=2e-2, rtol=2e-3)
        assert window.queries == min(16, len(rows))


def test_recall_copies_what_the_pool_holds():
    pool = PagePool(CacheShape(2, 2, 4), 16, 4, torch.float32)
    pool.keys.normal_()
    pool.values.normal_()
    other, sequence = Sequence(pool), Sequence(pool)
    for length in range(1, 25):
        sequence.reserve(length)
        other.reserve(length)
    positions = torch.tensor([[[0, 5, 23], [1, 2, 9]], [[3, 4, 5], [20, 21, 22]]])
    found = recall(pool, sequence, positions, 24)
    for layer in range(2):
        for head in range(2):
            slots = sequence.slots_of(positions[layer, head])
            assert torch.equal(found.keys[layer, head], pool.keys[layer, head, slots])
            assert torch.equal(found.values[layer, head], pool.values[layer, head, slots])


def test_pages_are_whole_sorted_and_unique_at_every_length():
    torch.manual_seed(0)
    budget = RecallBudget(share=0.1, floor=192)
    for length in (1, 15, 16, 17, 190, 192, 193, 300, 1000, 2500):
        chosen = select_pages(torch.rand(length), budget)
        assert (chosen.diff() > 0).all()
        assert chosen[-1] == length - 1
        pages = set((chosen // PAGE).tolist())
        assert len(pages) == min(-(-length // PAGE), -(-budget.positions(length) // PAGE))
        assert len(chosen) == sum(min(PAGE, length - page * PAGE) for page in pages)


def test_pages_are_chosen_by_their_sum():
    scores = torch.zeros(640)
    scores[100], scores[200:208] = 1.0, 0.2
    chosen = select_pages(scores, RecallBudget(share=0.01, floor=(RECENT_PAGES + 1) * PAGE))
    assert chosen.tolist() == [*range(192, 208), *range(512, 640)]

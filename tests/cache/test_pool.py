import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.cache.pool import CacheShape, OutOfPages, PagePool
from glimpse.cache.sequence import Sequence
from glimpse.errors import ArgumentError


def make_pool(pages=16, page_size=4):
    return PagePool(CacheShape(1, 1, 2), pages, page_size, torch.float32)


def test_bytes_per_token_are_those_of_unexpanded_heads():
    # Case A51: SmolLM2-135M in bf16.
    assert CacheShape(30, 3, 64).bytes_per_token(torch.bfloat16) == 23_040


def test_an_empty_pool_is_refused():
    with pytest.raises(ArgumentError, match="at least 1"):
        make_pool(pages=0)


def test_a_sequence_that_grows_alone_is_one_extent():
    sequence = Sequence(make_pool(), expected=40)
    for length in range(1, 41):
        sequence.reserve(length)
    assert sequence.extents(0, 40) == [(0, 40)]
    assert sequence.extents(5, 7) == [(5, 2)]


def test_two_sequences_that_grow_in_turn_stay_whole():
    pool = make_pool()
    one, two = Sequence(pool, expected=24), Sequence(pool, expected=24)
    for length in range(1, 25):
        one.reserve(length)
        two.reserve(length)
    assert len(one.extents(0, 24)) == len(two.extents(0, 24)) == 1
    assert not set(one.pages) & set(two.pages)


def test_shortage_takes_nothing():
    pool = make_pool(pages=2)
    sequence = Sequence(pool)
    with pytest.raises(OutOfPages, match="3 pages asked for, 2 free"):
        sequence.reserve(12)
    assert pool.free_pages == 2
    assert sequence.pages == []


@pytest.mark.parametrize(("length", "drafts"), [(15, 20), (1, 1), (40, 20), (16, 16)])
def test_reserving_for_drafts_and_giving_the_surplus_back(length, drafts):
    # Case A48, page size 16.
    pool = make_pool(pages=8, page_size=16)
    sequence = Sequence(pool)
    sequence.reserve(length)
    sequence.reserve(length + drafts + 1)
    assert len(sequence.pages) == -(-(length + drafts + 1) // 16)
    sequence.truncate(length)
    assert len(sequence.pages) == -(-length // 16)
    sequence.release()
    assert pool.free_pages == 8


def test_shared_pages_are_freed_by_their_last_holder():
    pool = make_pool()
    first = Sequence(pool)
    first.reserve(8)
    second = Sequence(pool, shared=first.pages[:2])
    first.release()
    assert pool.free_pages == 14
    second.reserve(9)
    assert len(second.pages) == 3
    second.truncate(0)
    assert len(second.pages) == 2, "shared pages stay"
    second.release()
    assert pool.free_pages == 16


def test_shared_pages_are_never_written():
    pool = make_pool()
    first = Sequence(pool)
    first.reserve(8)
    second = Sequence(pool, shared=first.pages)
    with pytest.raises(AssertionError, match="shared"):
        second.slots(7, 9)


def test_releasing_twice_is_caught():
    pool = make_pool()
    pages = pool.allocate(2, 0)
    pool.release(pages)
    with pytest.raises(AssertionError, match="more often"):
        pool.release(pages)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=40), st.integers(1, 5))
def test_ledger_balances_whatever_grows_and_shrinks(moves, page_size):
    pool = make_pool(pages=24, page_size=page_size)
    sequences = [Sequence(pool, expected=20) for _ in range(4)]
    for index, length in moves:
        try:
            sequences[index].reserve(length)
        except OutOfPages:
            sequences[index].truncate(length // 2)
        held = [page for sequence in sequences for page in sequence.pages]
        assert len(set(held)) == len(held)
        assert pool.free_pages == 24 - len(held)
        for sequence in sequences:
            spread = [s for first, count in sequence.extents(0, sequence.capacity) for s in range(first, first + count)]
            assert spread == sequence.slots_of(torch.arange(sequence.capacity)).tolist()
    for sequence in sequences:
        sequence.release()
    assert pool.free_pages == 24
    assert (pool._wished == 0).all()
    assert np.array_equal(pool._references, np.zeros(24))


@given(
    pages=st.lists(st.integers(0, 6), min_size=4, max_size=4, unique=True),
    start=st.integers(0, 16),
    count=st.integers(1, 16),
)
def test_runs_of_slots_hold_just_the_positions_asked_for(pages, start, count):
    """As few runs as there are pages that do not follow the one before."""
    sequence = Sequence(PagePool(CacheShape(1, 1, 2), 7, 4, torch.float32))
    sequence.pages, stop = pages, min(16, start + count)
    runs = sequence.extents(start, stop)
    slots = [slot for first, many in runs for slot in range(first, first + many)]
    assert slots == sequence.slots_of(torch.arange(start, stop)).tolist()
    inside = pages[start // 4 : -(-stop // 4)]
    assert len(runs) == sum(b != a + 1 for a, b in zip([-2, *inside], inside, strict=False))

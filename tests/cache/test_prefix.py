"""The radix tree over pages: what is found is what was put in, the least recently used goes first, pins stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.prefix import TAIL, PrefixStore
from glimpse.cache.sequence import Sequence

SIZE = 4


def make(pages=16, **options):
    pool = PagePool(CacheShape(1, 1, 2), pages, SIZE, torch.float32)
    return pool, PrefixStore(pool, **options)


def prompt(*blocks: int) -> list[int]:
    """A page of equal tokens for each of `blocks`, and a tail."""
    return [token for block in blocks for token in [block] * SIZE] + [99] * TAIL


def read(pool, store, ids, verified=None) -> Sequence:
    """A row that has read a prompt, sharing what it can."""
    sequence = Sequence(pool, expected=len(ids), shared=store.find(ids))
    sequence.reserve(len(ids))
    store.publish(ids, sequence.pages, len(ids) if verified is None else verified)
    return sequence


def test_the_longest_beginning_is_found_less_the_tail():
    pool, store = make(32)
    row = read(pool, store, prompt(1, 2, 3, 4))
    assert store.find(prompt(1, 2, 3, 4)) == row.pages[:4]
    assert store.find(prompt(1, 2, 3, 4)[:-1]) == row.pages[:3], "the last 16 tokens are read again"
    assert store.find(prompt(1, 2, 9)) == row.pages[:2]
    assert store.find(prompt(2, 3)) == []
    assert store.find([1] * TAIL) == []


def test_a_list_and_an_array_are_the_same_prompt():
    pool, store = make(32)
    ids = np.array(prompt(1, 2, 3))
    row = read(pool, store, prompt(1, 2, 3))
    assert store.find(ids) == row.pages[:3]
    key = store.keep(ids, row.pages)
    assert store.keep(prompt(1, 2, 3), row.pages) == key
    assert store.keep(prompt(1, 2, 3)[:-1], row.pages) != key, "one that is shorter has other whole pages"
    assert store.may_share(ids, np.array(prompt(1, 2, 9)), 2 * SIZE)
    assert not store.may_share(ids, np.array(prompt(1, 2, 9)), 2 * SIZE + 1)
    assert not store.may_share(ids, ids, 3 * SIZE + 1), "no further than to its tail"


def test_only_what_is_verified_is_shared():
    pool, store = make(32)
    row = read(pool, store, prompt(1, 2, 3, 4), verified=3 * SIZE - 1)
    assert store.find(prompt(1, 2, 3, 4)) == row.pages[:2]


def test_running_and_finished_rows_share_alike():
    pool, store = make(32)
    first = read(pool, store, prompt(1, 2, 3))
    second = read(pool, store, prompt(1, 2, 4))
    assert second.pages[:2] == first.pages[:2]
    assert not set(second.pages[2:]) & set(first.pages)
    pages = list(second.pages)
    first.release()
    second.release()
    assert pool.free_pages == 32
    third = read(pool, store, prompt(1, 2, 4))
    assert third.pages[:3] == pages[:3]


def test_the_least_recently_used_goes_first():
    pool, store = make(12)
    for block in (1, 2, 3):
        read(pool, store, prompt(block)).release()
    store.publish(prompt(1), store.find(prompt(1)), SIZE)  # used again
    taken = pool.allocate(10, 99)
    assert [len(store.find(prompt(block))) for block in (1, 2, 3)] == [1, 0, 1]
    taken += pool.allocate(1, 99)
    assert [len(store.find(prompt(block))) for block in (1, 2, 3)] == [1, 0, 0]
    assert len(taken) == 11


def test_of_one_prompt_the_end_goes_first():
    pool, store = make(12)
    row = read(pool, store, prompt(1, 2, 3, 4))
    row.release()
    for left in (3, 2, 1, 0):
        pool.allocate(9 if left == 3 else 1, 99)
        assert len(store.find(prompt(1, 2, 3, 4))) == left


def test_a_page_that_is_gone_takes_those_behind_it_along():
    pool, store = make(16)
    row = read(pool, store, prompt(1, 2, 3))
    pages = list(row.pages)
    row.release()
    store._forget([pages[1]])
    assert store.find(prompt(1, 2, 3)) == pages[:1]
    assert len(store._nodes) == 1
    assert (pool._used > 0).sum() == 1


def test_a_pinned_prompt_is_never_taken():
    pool, store = make(12)
    row = read(pool, store, prompt(1, 2))
    key = store.keep(prompt(1, 2), row.pages)
    pages = list(row.pages)
    row.release()
    pool.allocate(10, 99)
    assert store.find(prompt(1, 2), pinned=True) == pages[:2]
    store.drop(key)
    assert pool.free_pages == 2
    assert store.find(prompt(1, 2), pinned=True) == []
    assert store.find(prompt(1, 2)) == pages[:2], "published before, so still remembered"


def test_what_was_only_pinned_is_gone_with_its_pin():
    pool, store = make(12)
    row = Sequence(pool)
    row.reserve(6 * SIZE)
    keys = [store.keep(prompt(1, 2), row.pages) for _ in range(2)]
    pages = list(row.pages)
    row.release()
    store.drop(keys[0])
    assert store.find(prompt(1, 2)) == pages[:2]
    store.drop(keys[1])
    assert store.find(prompt(1, 2)) == []
    assert pool.free_pages == 12


def test_a_pin_holds_the_trees_pages_where_two_rows_read_the_same():
    pool, store = make(24)
    rows = [Sequence(pool), Sequence(pool)]
    for row in rows:
        row.reserve(6 * SIZE)
        store.publish(prompt(1, 2), row.pages, 6 * SIZE)
    pages = list(rows[0].pages)
    key = store.keep(prompt(1, 2), rows[1].pages)
    for row in rows:
        row.release()
    pool.allocate(22, 99)
    assert store.find(prompt(1, 2)) == pages[:2]
    store.drop(key)


def test_prompts_of_other_lengths_share_nothing_where_length_changes_the_keys():
    pool, store = make(32, by_length=True)
    row = read(pool, store, prompt(1, 2, 3))
    assert store.find(prompt(1, 2, 4)) == row.pages[:2]
    assert store.find(prompt(1, 2)) == []


def test_a_shared_prompt_is_followed_by_its_own_pages():
    """So that it is read without a copy."""
    pool, store = make(64)
    read(pool, store, prompt(7)).release()
    read(pool, store, prompt(1, 2, 3)).release()
    row = read(pool, store, prompt(1, 2, 3))
    assert row.shared_len == 3 * SIZE
    assert len(row.extents(0, len(prompt(1, 2, 3)))) == 1


MOVES = st.tuples(st.integers(0, 3), st.lists(st.integers(1, 3), max_size=5), st.sampled_from(["read", "end", "pin"]))


@settings(max_examples=80, deadline=None)
@given(st.lists(MOVES, max_size=40))
def test_what_is_found_holds_what_was_asked_for(moves):
    """Pages are filled as rows read; whatever happened, a page found holds the tokens of its place and all before."""
    pool, store = make(26)
    content, rows, keys = {}, {}, []
    for slot, blocks, what in moves:
        ids = prompt(*blocks)
        if what == "end" and slot in rows:
            rows.pop(slot).release()
        elif what == "pin" and slot in rows:
            if keys:
                store.drop(keys.pop())
            keys.append(store.keep(rows[slot].ids, rows[slot].pages))
        elif what == "read" and slot not in rows:
            shared = store.find(ids)
            assert [content[page] for page in shared] == [tuple(ids[: i * SIZE]) for i in range(1, len(shared) + 1)]
            if pool.pages_for(len(ids)) - pool.held(shared) > pool.free_pages:
                continue
            row = rows[slot] = read(pool, store, ids)
            row.ids = ids
            for place in range(len(shared), len(row.pages)):
                content[row.pages[place]] = tuple(ids[: (place + 1) * SIZE])
    for row in rows.values():
        row.release()
    for key in keys:
        store.drop(key)
    assert pool.free_pages == 26
    taken = pool.allocate(26, 0)
    assert not store._nodes
    assert (pool._used == 0).all()
    pool.release(taken)


def test_promises_grow_only_as_far_as_pages_are_spare():
    from glimpse.cache.pool import OutOfPages

    pool, _ = make(8)
    one, two = (Sequence(pool, expected=32, promised=8) for _ in range(2))
    assert pool.spare_pages == 4
    one.reserve(4)
    assert pool.spare_pages == 4
    one.promise(24)
    assert pool.spare_pages == 0
    with pytest.raises(OutOfPages, match="1 pages asked for, 0 spare"):
        two.promise(12)
    two.promise(8)
    one.release()
    assert pool.spare_pages == 6
    two.release()
    assert (pool.free_pages, pool.promised) == (8, 0)


def test_under_dynamic_scaling_nobody_waits_for_a_prompt_of_another_length():
    longer, shorter = list(range(700)), list(range(690))
    for by_length in (False, True):
        prefixes = PrefixStore(PagePool(CacheShape(1, 1, 4), 8, 16, torch.float32), by_length=by_length)
        assert prefixes.may_share(longer, shorter, 512) is not by_length
        assert prefixes.may_share(longer, [*longer[:600], *shorter[:100]], 512)

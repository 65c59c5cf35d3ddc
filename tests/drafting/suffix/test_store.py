"""The store across requests: bounded, found later, never between names."""

from __future__ import annotations

import pytest

from glimpse.drafting.suffix.store import Follower, SuffixStore
from glimpse.errors import ArgumentError


def best(store, *reads):
    follower = Follower(store)
    for tokens in reads:
        follower.read(tokens)
    return follower.best()[1].length


def test_earlier_texts_are_matched():
    store = SuffixStore("one", 1000)
    store.add([1, 2, 3, 4, 5])
    assert best(store, [9, 2, 3]) == best(store, [9, 2], [3]) == 2
    assert best(store, [9]) == best(store) == 0


def test_names_share_nothing():
    mine, yours = SuffixStore("mine", 1000), SuffixStore("yours", 1000)
    mine.add([1, 2, 3])
    assert (best(mine, [1, 2]), best(yours, [1, 2])) == (2, 0)


def test_it_stays_within_its_bound_and_keeps_the_latest():
    store = SuffixStore("one", 100)
    for begin in range(0, 3000, 10):
        store.add(list(range(begin, begin + 10)))
        assert len(store) <= 100
        assert best(store, list(range(begin, begin + 10))) == 10
    assert len(store) >= 40
    assert best(store, [0, 1, 2]) == 0
    assert len(store.indices) == 2


def test_a_text_longer_than_the_bound_is_kept_in_part():
    store = SuffixStore("one", 20)
    store.add(list(range(500)))
    assert len(store) == 10
    assert best(store, [498, 499]) == 2
    store.add([])
    assert len(store) == 10


def test_a_running_request_sees_what_is_added_and_survives_what_is_dropped():
    store = SuffixStore("one", 40)
    follower = Follower(store)
    follower.read([5, 6, 7])
    assert follower.best()[1].length == 0
    store.add([4, 5, 6, 7, 8])
    assert follower.best()[1].length == 3
    follower.read([8])
    assert follower.best()[1].length == 4
    for begin in (100, 200, 300, 400):
        store.add(list(range(begin, begin + 15)))
    follower.read([400, 401])
    assert follower.best()[1].length == 2
    assert len(follower._seen) == len(store.indices), "dropped indices are let go"


@pytest.mark.parametrize(("name", "capacity"), [("", 100), ("one", 1)])
def test_wrong_settings_are_refused(name, capacity):
    with pytest.raises(ArgumentError, match=f"store '{name}' of {capacity} tokens"):
        SuffixStore(name, capacity)

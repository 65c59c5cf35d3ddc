"""The suffix index against brute force: matches, counts, continuations."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.drafting.suffix import index as module
from glimpse.drafting.suffix import states
from glimpse.drafting.suffix.growing import FLOOR
from glimpse.drafting.suffix.index import Match, SuffixIndex
from glimpse.drafting.tree import Source

TEXTS = st.integers(1, 5).flatmap(lambda top: st.lists(st.integers(0, top), max_size=50))
SURE = np.ones(1)


def occurrences(text, gram):
    return [end for end in range(len(gram), len(text) + 1) if text[end - len(gram) : end] == gram]


def longest(text, within):
    """The longest suffix of `text` that occurs in `within`."""
    return next(size for size in range(len(text), -1, -1) if occurrences(within, text[len(text) - size :]))


def state_of(index, gram):
    state = 0
    for token in gram:
        edge = states.edge_of(index._edges, index._buckets, state, token)
        if edge == 0:
            return None
        state = int(index._edges[edge, states.TO])
    return state


def read(text):
    index = SuffixIndex()
    index.read(text)
    return index


def propose(text, budget=64, depth=64, rates=SURE):
    index = read(text)
    return index.propose(index.own(), rates, budget, depth, Source.SUFFIX)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_after_every_token_the_match_is_the_longest_earlier_one(text):
    index = SuffixIndex()
    for length, token in enumerate(text, 1):
        index.read([token])
        assert index.own().length == longest(text[1:length], text[: length - 1])


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_every_substring_is_there_with_its_occurrences_and_nothing_else(text):
    index = read(text)
    grams = {tuple(text[begin:end]) for begin in range(len(text)) for end in range(begin + 1, len(text) + 1)}
    for gram in grams:
        state, ends = state_of(index, gram), occurrences(text, list(gram))
        assert (index._states[state, states.COUNT], index._states[state, states.END]) == (len(ends), ends[-1])
        for token in set(text):
            assert ((*gram, token) in grams) == (state_of(index, (*gram, token)) is not None)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=200))
def test_arrays_grow_before_they_are_full(text):
    """One token may bring many edges at once: after 1 1 2 ... 9 every second 1 splits a state with many followers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST", 1)
        index = SuffixIndex()
    for token in text:
        index._edges = index._edges[: 3 * (len(index) + 1) + 1]  # what doubling adds would hide a miscount
        index._states = index._states[: 2 * (len(index) + 1) + 1]
        index.read([token])
        assert index._meta[states.EDGES] <= len(index._edges)
        assert index._meta[states.STATES] <= len(index._states)


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_following_another_text_while_the_index_grows(first, second, other):
    """The match never claims what is not there, and is the longest where the index did not grow meanwhile."""
    index, match = read(first), Match(0, 0)
    for length, token in enumerate(other, 1):
        match = index.follow(match, [token])
        assert match.length == longest(other[:length], first)
    index.read(second)
    match = index.follow(match, second)
    heard, said = other + second, first + second
    assert occurrences(said, heard[len(heard) - match.length :])
    assert match.length >= longest(second, second)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 6))
def test_proposals_share_the_match_by_how_often_each_token_followed(text, depth):
    rates = np.array([0.5, 0.75, 0.9])
    proposal = propose(text, 400, depth, rates)
    match = longest(text[1:], text[:-1]) if text else 0
    paths = []
    for node, token in enumerate(proposal.tree.tokens.tolist()):
        parent = int(proposal.tree.parents[node])
        path = paths[parent] if parent >= 0 else []
        paths.append([*path, token])
        known = next(
            size for size in range(match + len(path), 0, -1)
            if (tail := (text + path)[len(text) + len(path) - size :]) and follows(text, tail)
        )  # fmt: skip
        counts = follows(text, (text + path)[len(text) + len(path) - known :])
        above = proposal.tree.reach[parent] if parent >= 0 else 1.0
        chance = above * rates[min(known, 3) - 1] * counts.count(token) / len(counts)
        assert proposal.tree.reach[node] == pytest.approx(chance, rel=1e-5)
        assert proposal.matches[node] == known + 1
    assert sorted(proposal.tree.reach.tolist(), reverse=True) == proposal.tree.reach.tolist()
    assert len({tuple(path) for path in paths}) == len(paths)
    if match and depth:
        first = follows(text, text[len(text) - match :])
        expected = {token for token in first if rates[min(match, 3) - 1] * first.count(token) / len(first) >= FLOOR}
        assert {path[0] for path in paths if len(path) == 1} == expected


def follows(text, gram):
    return [text[end] for end in occurrences(text, gram) if end < len(text)]


def test_matches_have_no_longest_length():
    page = list(range(100, 3000))
    proposal = propose([*page, 7, *page[:2500]], 20)
    assert proposal.match == 2500
    assert proposal.tree.tokens.tolist() == page[2500:2520]


def test_a_loop_is_drafted_whole():
    assert propose([1, 2, 3, 1, 2, 3, 1, 2], 8).tree.tokens.tolist() == [3, 1, 2, 3, 1, 2, 3, 1]


def test_the_latest_wins_among_equals():
    assert propose([1, 2, 5, 1, 2, 6, 1, 2], depth=1).tree.tokens.tolist() == [6, 5]


@pytest.mark.parametrize("text", [[], [3], [3, 4], list(range(40))])
def test_without_a_repeat_nothing_is_proposed(text):
    assert len(propose(text).tree) == 0


def test_one_token_over_and_over():
    """32K times: no quadratic cost, and a draft as long as wished."""
    begin = time.process_time()
    proposal = propose([7] * 32_768)
    assert time.process_time() - begin < 2
    assert proposal.match == 32_767
    assert proposal.tree.tokens.tolist() == [7] * 64


def test_large_vocabularies():
    top = (1 << 18) - 1
    assert propose([top, top - 1, 0, top]).tree.tokens.tolist()[:2] == [top - 1, 0]


def test_no_match_and_no_draft_runs_over_a_separator():
    index = SuffixIndex()
    for text in ([1, 2, 3], [4, 5, 6]):
        index.read(text)
        index.separate()
    match = index.follow(Match(0, 0), [2, 3])
    assert match.length == 2
    assert len(index.propose(match, SURE, 8, 8, Source.STORE).tree) == 0
    assert index.follow(match, [4]).length == 1


def test_budget_and_depth_bound_the_draft():
    text = [1, 2, 3, 4, 5, 6, 1, 2]
    assert propose(text, budget=2).tree.tokens.tolist() == [3, 4]
    assert propose(text, depth=3).tree.tokens.tolist() == [3, 4, 5]
    assert len(propose(text, budget=0).tree) == len(propose(text, depth=0).tree) == 0


def test_memory_of_a_32k_text():
    index = read(np.random.default_rng(2).integers(0, 50_000, 32_768))
    assert len(index) == 32_768
    assert index.nbytes < 8 << 20

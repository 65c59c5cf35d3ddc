"""Lookup: which match it follows, how far, at what cost; and what it learns of its matches."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drafting.histories import rows_of

from glimpse.drafting import DRAFTERS
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.lookup import CANDIDATES, PRIOR, LookupDrafter, MatchRates
from glimpse.errors import ArgumentError


def propose(text: list[int], room: int = 8, **options) -> list[int]:
    drafter, view = LookupDrafter(**options), rows_of(text)
    drafter.admit(view)
    return drafter.plan(view, [room]).tokens.tolist()


def naive(text: list[int], room: int, least: int, most: int) -> list[int]:
    """The promise, by brute force: the longest earlier match of the last tokens, the most recent on a tie."""
    best, begin = 0, -1
    for end in range(len(text) - 1, 0, -1):
        match = 0
        while match < min(most, end) and text[end - 1 - match] == text[-1 - match]:
            match += 1
        if match >= least and match > best:
            best, begin = match, end
    if begin < 0:
        return []
    copied = list(text)
    for place in range(room):
        copied.append(copied[begin + place])
    return copied[len(text) :]


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    room=st.integers(1, 9),
    sizes=st.tuples(st.integers(1, 4), st.integers(0, 4)),
)
def test_equal_to_brute_force(text, room, sizes):
    """Texts so short that every candidate is looked at (`CANDIDATES`)."""
    least, most = sizes[0], sum(sizes)
    assert propose(text, room, min_match=least, max_match=most) == naive(text, room, least, most)


@pytest.mark.parametrize("length", range(1, 11))
def test_short_texts(length):
    """A31: shorter than a draft, or than the smallest match."""
    assert propose(list(range(length)), 4) == []
    assert propose([], 4) == []


def test_a_loop_is_drafted_whole():
    assert propose([1, 2, 3, 1, 2, 3, 1, 2], 8) == [3, 1, 2, 3, 1, 2, 3, 1]
    assert propose([5] * 9, 6) == [5] * 6


@pytest.mark.parametrize(
    ("sizes", "found"), [((1, 4), True), ((2, 4), True), ((2, 2), True), ((3, 4), False), ((4, 4), False)]
)
def test_the_range_is_what_is_used(sizes, found):
    """A33: only a 2-gram repeats."""
    text = [1, 2, 9, 8, 7, 6, 1, 2]
    assert (propose(text, 2, min_match=sizes[0], max_match=sizes[1]) == [9, 8]) == found


def test_the_longest_match_wins_up_to_the_most():
    text = [1, 2, 3, 50, 9, 2, 3, 60, 1, 2, 3]
    assert propose(text, 1, min_match=2, max_match=3) == [50]
    assert propose(text, 1, min_match=2, max_match=2) == [60]  # as long as allowed, so the most recent


@pytest.mark.parametrize("sizes", [(4, 2), (0, 3), (-1, 3)])
def test_wrong_ranges_are_refused(sizes):
    """A33."""
    with pytest.raises(ArgumentError, match=f"{sizes[0]} to {sizes[1]}"):
        LookupDrafter(*sizes)


def test_the_default_range_is_documented():
    drafter = DRAFTERS.get("lookup").build(None)
    assert (drafter.min_match, drafter.max_match) == (2, 16)


def test_room_and_rows():
    drafter, view = LookupDrafter(), rows_of([1, 2, 3, 1, 2], [4, 5, 6, 4, 5], [9], [1, 2, 3, 1, 2])
    drafter.admit(view)
    draft = drafter.plan(view, [2, 1, 5, 0])
    assert draft.tokens.tolist() == [3, 1, 6]
    assert draft.offsets == (0, 2, 3, 3, 3)
    assert draft.parents.tolist() == [-1, 0, -1]
    assert draft.law is None
    drafter.retire(view)
    assert not drafter._histories


def test_the_cost_of_a_step_is_bounded(monkeypatch):
    """A65: a text of one repeated pair has thousands of candidates; few are compared, each over few tokens."""
    calls = []
    real = LookupDrafter._match_length
    monkeypatch.setattr(
        LookupDrafter, "_match_length", lambda self, tokens, end: calls.append(end) or real(self, tokens, end)
    )
    draw = random.Random(1)
    text = [token for _ in range(1500) for token in (1, 2, draw.randrange(3, 2000))] + [1, 2]
    assert len(propose(text[-4000:], 8)) == 8
    assert len(calls) == CANDIDATES


def test_committed_tokens_are_found_later():
    drafter, view = LookupDrafter(), rows_of([1, 2, 3])
    drafter.admit(view)
    assert drafter.plan(view, [4]).tokens.tolist() == []
    drafter.absorb(view, [Outcome(0, 0, 0, [1, 2])])
    assert drafter.plan(view, [2]).tokens.tolist() == [3, 1]


def test_requests_do_not_see_one_another():
    drafter, view = LookupDrafter(), rows_of([1, 2, 3, 4], [8, 8, 1, 2])
    drafter.admit(view)
    assert drafter.plan(view, [4, 4]).tokens.tolist() == []


def test_match_rates_begin_with_the_prior_and_learn():
    rates = MatchRates()
    assert [rates.rate(match) for match in range(1, 10)] == pytest.approx(PRIOR)
    assert rates.rate(50) == pytest.approx(PRIOR[-1])
    assert list(PRIOR) == sorted(PRIOR)
    for turn in range(600):
        rates.observe(3, turn % 4 == 0)
    assert rates.rate(3) == pytest.approx(0.25, abs=0.01)
    assert rates.rate(2) == pytest.approx(PRIOR[1])


def test_each_token_of_a_draft_counts_at_its_own_match_length():
    """A draft after a match of 2: accepted 2 of 4, so 2 and 3 were right, 4 wrong, 5 unseen."""
    drafter, view = LookupDrafter(), rows_of([1, 2, 3, 4, 5, 6, 1, 2])
    drafter.admit(view)
    draft = drafter.plan(view, [4])
    assert draft.tokens.tolist() == [3, 4, 5, 6]
    assert draft.confidence.tolist() == pytest.approx(PRIOR[1:5])
    rates = drafter._histories[0].rates
    before = [rates.rate(match) for match in range(1, 7)]
    drafter.absorb(view, [Outcome(0, 4, 2, [3, 4, 9])])
    after = [rates.rate(match) for match in range(1, 7)]
    assert [x > y for x, y in zip(after, before, strict=True)] == [False, True, True, False, False, False]
    assert [x < y for x, y in zip(after, before, strict=True)] == [False, False, False, True, False, False]

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.engine.stops import StopMatch, StopMatcher
from glimpse.errors import ArgumentError


def feed_all(stops, pieces):
    """The match, and what was held after each piece before it."""
    matcher = StopMatcher(stops)
    held = []
    for piece in pieces:
        match = matcher.feed(piece)
        if match:
            return match, held
        held.append(matcher.held)
    return None, held


def naive(stops, pieces):
    """By searching the whole text again after every piece."""
    text = ""
    held = []
    for piece in pieces:
        before, text = len(text), text + piece
        found = [
            (start, -len(stop), stop)
            for stop in stops
            for start in range(len(text))
            if text.startswith(stop, start) and start + len(stop) > before
        ]
        if found:
            start, size, stop = min(found)
            return StopMatch(stop, start, start - size), held
        held.append(max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0))
    return None, held


@given(
    st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
    st.lists(st.text("abc", max_size=6), max_size=12),
)
@settings(max_examples=500, deadline=None)
def test_equals_searching_the_whole_text(stops, pieces):
    assert feed_all(stops, pieces) == naive(stops, pieces)


def test_no_stop_strings():
    assert feed_all([], ["abc", "d"]) == (None, [0, 0])


def test_a_stop_string_that_overlaps_itself():
    assert feed_all(["aaa"], ["ba", "a", "aa"]) == (StopMatch("aaa", 1, 4), [1, 2])


def test_twice_in_one_piece_the_first_counts():
    assert feed_all(["END"], ["xENDyEND"])[0] == StopMatch("END", 1, 4)


def test_same_piece_the_one_that_starts_first_then_the_longer():
    assert feed_all(["b", "abc"], ["abc"])[0] == StopMatch("abc", 0, 3)
    assert feed_all(["ab", "abc"], ["abc"])[0] == StopMatch("abc", 0, 3)
    assert feed_all(["b", "abc"], ["ab", "c"])[0] == StopMatch("b", 1, 2)


@pytest.mark.parametrize("cut", range(1, 8))
def test_spans_pieces_at_every_cut(cut):
    text = "one\n\nEND"
    match, _ = feed_all(["\n\nEND"], [text[:cut], text[cut:]])
    assert match == StopMatch("\n\nEND", 3, 8)


def test_unarmed_reads_on_without_matching():
    matcher = StopMatcher(["ab", "b!"])
    assert matcher.feed("xab", armed=False) is None
    assert matcher.held == 1, "the b may begin b!"
    assert matcher.feed("!") == StopMatch("b!", 2, 4)


def test_empty_stop_string_is_refused():
    with pytest.raises(ArgumentError, match="must not be empty"):
        StopMatcher(["a", ""])

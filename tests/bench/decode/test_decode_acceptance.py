"""Acceptance by depth, worked out by hand."""

from __future__ import annotations

import pytest

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import Round, distinct_4grams


def test_depths_count_only_drafts_that_got_so_far():
    rounds = [
        Round([2, 2, 2], [3, 1, 0], [[0.9, 0.8], [0.5, 0.4], [0.1, 0.1]]),
        Round([2, 2, 2], [2, 1, 0], [[0.7, 0.6], [0.3, 0.2], []]),
    ]
    found = depths(rounds, 2)
    assert found.reached == [4, 2]
    assert found.measured == [2 / 4, 1 / 2]
    assert found.confidence == pytest.approx([(0.9 + 0.5 + 0.7 + 0.3) / 4, (0.8 + 0.6) / 2])
    assert (found.accepted, found.tokens) == (3 / 4, 7)


def test_the_prediction_is_what_like_confidence_brought_in_the_other_half():
    halves = [Round([1], [2], [[0.95]]), Round([1], [1], [[0.95]])]
    assert depths(halves, 1).predicted == [1 / 2]  # each half says of the other what is wrong
    steady = [Round([1], [2], [[0.95]])] * 2 + [Round([1], [1], [[0.25]])] * 2
    assert depths(steady, 1).predicted == [1 / 2]
    deep = [Round([2], [3], [[0.95, 0.92]])] * 2 + [Round([2], [1], [[0.25, 0.95]])] * 2
    assert depths(deep, 2).predicted == [1 / 2, 1.0]
    assert depths(deep, 2).measured == [1 / 2, 1.0]


def test_a_depth_that_no_draft_reached_is_unknown():
    found = depths([Round([2], [1], [[0.4, 0.3]])], 2)
    assert (found.measured, found.known, found.predicted[1]) == ([0.0, None], [0.0], None)
    assert depths([], 1).measured == [None]


def test_a_shorter_draft_was_not_rejected_beyond_its_end():
    found = depths([Round([1, 2], [2, 3], [[], []])], 2)
    assert (found.reached, found.measured, found.predicted) == ([2, 1], [1.0, 1.0], [None, None])


def test_distinct_4grams_are_counted_row_by_row():
    assert distinct_4grams([[1, 2, 3, 4], [1, 2, 3, 4]]) == 1
    assert distinct_4grams([[5] * 5]) == 1 / 2
    assert distinct_4grams([[1]]) == 1

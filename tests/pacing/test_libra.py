"""LibraSpec's loop: worked examples, the rollback, the credit, and that with measured alphas it is the best rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glimpse.pacing.libra import ALPHA, farthest, search

chance = st.floats(0.01, 0.99)
chains = st.lists(chance, min_size=1, max_size=12).map(np.array)


@pytest.mark.parametrize(
    ("chances", "reach"),
    [
        ([0.9], 2),  # floor(1.8 + 1)
        ([0.4], 1),  # floor(0.8 + 1)
        ([0.9, 0.9], 3),  # from 1: floor(2 (.9 + .81) + 1) = 4; from 2: floor(1.8 + 2) = 3
        ([0.9, 0.9, 0.1], 3),  # the last alone: floor(0.2 + 3)
        ([0.9, 0.1, 0.1], 2),  # from 2: floor(2 (.1 + .01) + 2) = 2
        ([0.1, 0.9, 0.9], 1),  # from 1: floor(2 (.1 + .09 + .081) + 1) = 1, whatever follows
    ],
)
def test_by_hand(chances, reach):
    assert farthest(np.array(chances), 2.0) == reach


@given(chains, st.floats(0.5, 4))
def test_it_is_the_papers_formula(chances, alpha):
    """Written out as the paper has it."""
    d = len(chances)
    every = [
        alpha * sum(np.prod(chances[i : j + 1]) for j in range(i, d)) + i + 1  # i from 0 here
        for i in range(d)
    ]
    assert farthest(chances, alpha) in {int(min(every) - 1e-9), int(min(every) + 1e-9)}


def test_a_hopeless_token_pulls_the_draft_back_to_where_it_stands():
    chances = np.full(10, 0.95)
    chances[5] = 0.01
    assert search(chances, ALPHA, 10, 10) == (6, True)
    assert search(np.full(10, 0.95), ALPHA, 10, 10) == (10, True)


def test_credit_asks_for_more_and_goes_on_from_there():
    sure = np.full(4, 0.9)
    length, final = search(sure, ALPHA, 4, 60)
    assert not final
    assert length == farthest(sure, ALPHA) > 4
    assert search(np.full(length, 0.9), ALPHA, 4, 60)[0] >= length
    assert search(np.full(60, 0.9), ALPHA, 4, 8) == (8, True), "never more than the most"
    assert search(np.array([]), ALPHA, 4, 60) == (4, False)
    assert search(np.array([]), ALPHA, 4, 0) == (0, True)


@given(chains, st.lists(chance, max_size=6), st.integers(1, 4))
def test_more_tokens_never_change_what_was_final(chances, more, block):
    length, final = search(chances, ALPHA, block, 16)
    longer = np.concatenate([chances, more])
    assert not final or search(longer, ALPHA, block, 16) == (length, True)


def rates(chances, begin, token):
    """[d + 1]: expected tokens over seconds of rounds of 0 ... d drafts."""
    expected = 1 + np.concatenate([[0], np.cumsum(np.cumprod(chances))])
    return expected / (begin + token * np.arange(len(chances) + 1))


@given(chains, st.floats(0.5, 5), st.floats(0.01, 1))
def test_with_measured_alphas_it_goes_on_while_the_rate_is_the_highest_so_far(chances, begin, token):
    """The docstring's claim: that all e_i lie behind d is that d is better than every shorter length."""
    known = rates(chances, begin, token)
    reached = np.concatenate([[1], np.cumprod(chances)])[:-1]
    alphas = reached / known[:-1] / token
    d = len(chances)
    best = known[d] / known[:d].max()
    if abs(best - 1) > 1e-9:
        # A tie counts as going on: the floor of d + 1 is d + 1.
        assert (farthest(chances, alphas) > d) == (best > 1)

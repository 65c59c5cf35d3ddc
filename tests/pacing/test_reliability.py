"""What a draft token's margin, probability and entropy say, and what a request adds to it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from glimpse.pacing.reliability import SUREST, Reliability, log_odds

RULES = {
    "coupled": {"same_noise": True, "own_noise": False},
    "matched": {"same_noise": False, "own_noise": True},
    "rejection": {"same_noise": False, "own_noise": False},
}


def odds(said, margin=np.nan, entropy=1.0, rule="coupled"):
    return float(log_odds(np.array([said]), np.array([entropy]), np.array([margin]), **RULES[rule])[0])


def test_with_the_same_noise_the_margin_decides_and_the_probability_does_not():
    assert odds(0.04, margin=2.0) == odds(0.9, margin=2.0)
    assert odds(0.5, margin=0.01) < odds(0.5, margin=0.3) < odds(0.5, margin=3.0)


def test_with_noise_of_its_own_the_target_draws_the_token_as_often_as_it_is_probable():
    for said in (0.1, 0.5, 0.8):
        assert 1 / (1 + np.exp(-odds(said, margin=2.0, rule="matched"))) == pytest.approx(said)


def test_greedy_rows_go_by_margin_under_every_rule_and_by_entropy_where_it_is_not_known():
    assert len({odds(1.0, margin=0.7, rule=rule) for rule in RULES}) == 1
    assert odds(1.0, margin=0.1) < odds(1.0, margin=2.0)
    assert odds(1.0, entropy=3.0) < odds(1.0, entropy=0.1)


def test_unknown_margins_leave_the_probability_and_nothing_is_infinite():
    assert odds(0.1) < odds(0.9)
    assert odds(0.1, rule="rejection") == odds(0.1)
    values = [odds(said, margin, 0.0) for said in (0.0, 0.5, 1.0) for margin in (0.0, np.inf, np.nan)]
    assert np.isfinite(values).all()


def test_a_request_that_is_like_all_others_stays_so():
    state, start = Reliability(), np.linspace(-2, 4, 5)
    before, draw = state.chances(start), random.Random(3)
    for _ in range(300):
        value = draw.uniform(-1, 4)
        state.learn(value, draw.random() < 1 / (1 + np.exp(-value)))
    assert state.chances(start) == pytest.approx(before, abs=0.12)


@pytest.mark.parametrize(("shift", "slope"), [(-1.0, 1.0), (0.8, 1.0), (0.0, 0.4)])
def test_a_request_of_its_own_is_learned(shift, slope):
    state, draw = Reliability(), random.Random(5)
    for _ in range(600):
        value = draw.uniform(-1, 4)
        state.learn(value, draw.random() < 1 / (1 + np.exp(-(shift + slope * value))))
    points = np.array([0.0, 1.0, 2.5])
    right = 1 / (1 + np.exp(-(shift + slope * points)))
    assert state.chances(points) == pytest.approx(right, abs=0.12)


def test_one_token_says_little_and_none_is_certain():
    state = Reliability()
    before = state.chances(np.array([2.0]))[0]
    state.learn(2.0, False)
    assert before - 0.1 < state.chances(np.array([2.0]))[0] < before
    assert state.chances(np.array([50.0]))[0] == SUREST

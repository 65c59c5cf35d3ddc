"""Medians, intervals, chi-square and repetition against values known by hand or from scipy."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from glimpse.bench.stats import bootstrap, chi_square, distinct_share, summary


def test_summary():
    own = summary([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (own.median, own.low, own.high, own.count) == (3.0, 2.0, 4.0, 5)
    assert summary([7.0]).to_json() == {"median": 7.0, "low": 7.0, "high": 7.0, "count": 1}
    with pytest.raises(ValueError, match="no values"):
        summary([])


def test_chi_square_is_pearsons():
    counts, law = [48, 35, 17], [0.5, 0.3, 0.2]
    right = scipy_stats.chisquare(counts, [100 * p for p in law])
    own = chi_square(counts, law)
    assert own.statistic == pytest.approx(right.statistic)
    assert own.p_value == pytest.approx(right.pvalue)
    assert own.freedom == 2


def test_chi_square_puts_rare_outcomes_together():
    assert chi_square([97, 1, 1, 1], [0.97, 0.01, 0.01, 0.01]).freedom == 0
    assert chi_square([906, 48, 46], [0.9, 0.05, 0.05]).freedom == 2


def test_chi_square_refuses_the_impossible():
    assert chi_square([99, 1], [1.0, 0.0]).p_value == 0.0
    assert math.isinf(chi_square([50, 50], [0.5, 0.3, 0.2]).statistic)
    assert chi_square([60, 0, 40], [0.5, 0.3, 0.2]).p_value < 1e-4


def test_bootstrap_covers_the_mean_of_groups():
    groups = [[value] * 10 for value in np.random.default_rng(1).normal(5.0, 1.0, size=40)]
    low, high = bootstrap(groups, lambda picked: float(np.mean(picked)))
    error = float(np.std([group[0] for group in groups])) / math.sqrt(40)
    assert low < 5.1 < high
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15), "whole groups are drawn, not single values"


def test_distinct_share():
    assert distinct_share([1, 2, 3, 4, 5]) == 1.0
    assert distinct_share([1, 2] * 50) == pytest.approx(2 / 97)
    assert distinct_share([1, 2]) == 1.0

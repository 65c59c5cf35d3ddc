"""How large a bias the chi-square tests of this folder see, worked out beforehand.

Under a biased law the statistic is noncentral chi-square with noncentrality n * sum((q - p)^2 / p).
"""

from __future__ import annotations

import pytest
from scipy.stats import chi2, ncx2

BIAS = 0.02
LAWS = {
    "V1": [0.5, 0.3, 0.2],
    "V2": [0.4, 0.3, 0.2, 0.1],
    "a tree's P": [0.5, 0.3, 0.15, 0.05],
    "uniform over eight": [1 / 8] * 8,
}


def power(law: list[float], bias: float, draws: int, level: float) -> float:
    """The chance that a test refuses a law in which `bias` of probability went from the first token to the last."""
    noncentrality = draws * (bias**2 / law[0] + bias**2 / law[-1])
    freedom = len(law) - 1
    return float(ncx2.sf(chi2.isf(level, freedom), freedom, noncentrality))


@pytest.mark.parametrize("name", LAWS)
def test_a_bias_of_two_hundredths_is_all_but_certainly_seen(name, batch):
    assert power(LAWS[name], BIAS, batch[0], 1e-4) > 0.98


def test_a_right_law_is_all_but_never_refused(batch):
    assert power(LAWS["V1"], 0.0, batch[0], 1e-4) == pytest.approx(1e-4, rel=1e-6)

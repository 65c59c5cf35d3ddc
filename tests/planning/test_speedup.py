"""The efficiency analysis against the published-style table (systems.md 9.1) and by hand."""

from __future__ import annotations

import math

import pytest

from glimpse.errors import ArgumentError
from glimpse.planning.speedup import (
    Acceptance,
    best_length,
    break_even,
    draft_cost,
    parse_acceptance,
    speedup,
    tokens_per_round,
)

TABLE = {
    0.25: (".81", "1.00", "1.00", "1.00", "1.05@3"),
    0.5: (".69", "1.01", "1.04", "1.09@2", "1.17@4"),
    1: (".54", "1.12@2", "1.19@2", "1.27@3", "1.40@5"),
    2: (".38", "1.32@3", "1.42@3", "1.56@4", "1.79@7"),
    4: (".26", "1.58@4", "1.75@4", "1.98@6", "2.36@9"),
    8: (".17", "1.88@5", "2.12@6", "2.46@8", "3.06@12"),
    16: (".12", "2.14@5", "2.46@7", "2.93@9", "3.77@14"),
}
"""r: c, then speedup@length at acceptances of .80, .85, .90 and .95; rho = 7%, a verification costs 1.1 plain steps.

The source prints c = .13 for r = 16; its speedups there follow from 2.12 / 17 = .1247.
"""


def shown(value):
    """Two digits, halves up, as the table rounds."""
    return f"{math.floor(value * 100 + 0.5) / 100:.2f}"


@pytest.mark.parametrize("r", TABLE)
def test_the_table_is_reproduced_to_its_digits(r):
    c, *cells = TABLE[r]
    cost = draft_cost(r, 0.07)
    assert shown(cost).lstrip("0") == c
    for alpha, cell in zip((0.80, 0.85, 0.90, 0.95), cells, strict=True):
        value, _, length = cell.partition("@")
        best = best_length(Acceptance(alpha, alpha), cost, lambda drafted: 1.1)
        assert shown(best.speedup) == value
        assert not length or best.drafted == int(length)


def test_speedup_by_hand():
    curve = Acceptance(0.9, 0.9)
    assert tokens_per_round(curve, 3) == pytest.approx(1 + 0.9 + 0.81 + 0.729)
    assert speedup(curve, 3, 0.535, lambda drafted: 1.1) == pytest.approx(3.439 / (3 * 0.535 + 1.1))
    assert speedup(curve, 0, 0.5, lambda drafted: 5.0) == 1.0
    assert tokens_per_round(Acceptance(1, 1), 7) == 8
    assert tokens_per_round(Acceptance(0, 0), 7) == 1


def test_a_falling_acceptance():
    curve = parse_acceptance("0.94:0.86")
    assert [curve.at(depth) for depth in (1, 8, 20)] == pytest.approx([0.94, 0.86, 0.86])
    assert curve.at(4) == pytest.approx(0.94 - 0.08 * 3 / 7)
    assert str(curve) == "0.94:0.86"
    assert str(parse_acceptance("0.9")) == "0.9"
    better, worse = (best_length(parse_acceptance(text), 0.2, lambda drafted: 1.1) for text in ("0.94", "0.94:0.86"))
    assert better.speedup > worse.speedup > best_length(Acceptance(0.86, 0.86), 0.2, lambda drafted: 1.1).speedup


def test_break_even_is_where_drafting_begins_to_pay():
    """One draft pays from 1 + a > c + v on; with v = 1.1 and c = 0.5, a > 0.6; longer drafts may begin earlier."""
    assert break_even(0.5, lambda drafted: 1.1, most=1) == pytest.approx(0.6, abs=1e-5)
    cost = 0.3
    edge = break_even(cost, lambda drafted: 1.0 + 0.05 * drafted)
    for shift, pays in ((-0.001, False), (0.001, True)):
        best = best_length(Acceptance(edge + shift, edge + shift), cost, lambda drafted: 1.0 + 0.05 * drafted)
        assert (best.drafted > 0) is pays
    assert break_even(1.0, lambda drafted: 1.1) is None
    assert break_even(0.2, lambda drafted: 1.0 + drafted) is None


@pytest.mark.parametrize("text", ["1.2", "-0.1", "0.9:1.5", "nan", "nan:0.5"])
def test_what_is_no_probability_is_refused(text):
    with pytest.raises(ArgumentError, match="is not a probability; give 0 to 1"):
        parse_acceptance(text)


@pytest.mark.parametrize("text", ["high", "0.9:", "0.9:low", "", "0.9:0.8:0.7"])
def test_what_is_no_acceptance_is_refused(text):
    with pytest.raises(ArgumentError, match="for example"):
        parse_acceptance(text)

"""The rule by which a row changes its drafter: hysteresis, and no flapping."""

from __future__ import annotations

import random

import pytest

from glimpse.drafting.auto import PLAIN
from glimpse.pacing.auto_choice import BETTER, DOUBT, DWELL, ENTER, MEANS, PROVEN, SAVED, Chooser

SOON = 1 + (BETTER - 1) * (1 + DOUBT / DWELL)
"""How much faster another has to look as soon as a change is thought of."""


def chooser(current: str, **facts) -> Chooser:
    return Chooser(current, since=-DWELL, **facts)


@pytest.mark.parametrize(
    ("current", "speeds", "taken"),
    [
        (PLAIN, {"racer": ENTER + 0.01}, "racer"),
        (PLAIN, {"racer": ENTER - 0.01}, PLAIN),
        ("racer", {"racer": 1.5, "suffix": 1.5 * SOON + 0.01}, "suffix"),
        ("racer", {"racer": 1.5, "suffix": 1.5 * SOON - 0.01}, "racer"),
    ],
)
def test_who_is_taken(current, speeds, taken):
    made = chooser(current)
    assert made.decide(0, {PLAIN: 1.0} | speeds) == (taken != current)
    assert made.current == taken


@pytest.mark.parametrize(
    ("loss", "speeds", "taken"),
    [
        (MEANS - 0.1, {"racer": 0.8, "suffix": 0.7}, "racer"),
        (MEANS + 0.1, {"racer": 1.01, "suffix": 0.7}, "racer"),
        (MEANS + 0.1, {"racer": 0.99, "suffix": 0.7}, PLAIN),
        (MEANS + 0.1, {"racer": 0.99, "suffix": 1.01}, "suffix"),
    ],
)
def test_a_drafter_is_left_where_its_means_are_spent(loss, speeds, taken):
    made = chooser("racer", loss=loss)
    assert made.decide(0, {PLAIN: 1.0} | speeds) == (taken != "racer")
    assert made.current == taken


def test_the_longer_a_drafter_was_seen_the_less_another_has_to_be_better():
    speeds = {PLAIN: 1.0, "racer": 1.5, "suffix": 1.5 * (BETTER + 0.01)}
    assert not Chooser("racer", since=0).decide(DOUBT, speeds)
    assert Chooser("racer", since=0).decide(13 * DOUBT, speeds)


def test_a_choice_stays_a_while():
    made = Chooser("racer", since=0)
    made.book(1, 9)
    worse = {PLAIN: 1.0, "racer": 0.5}
    assert not made.decide(DWELL - 1, worse)
    assert made.decide(DWELL, worse)


def test_who_did_not_pay_needs_more_next_time_until_it_has_paid():
    made = chooser("racer")
    good = {PLAIN: 1.0, "racer": ENTER + 0.01}
    made.book(1, 9)
    made.decide(0, {PLAIN: 1.0, "racer": 0.9})
    assert not made.decide(100, good), "once bitten"
    assert made.decide(200, {PLAIN: 1.0, "racer": 1.5})
    assert made.decide(200 + PROVEN, {PLAIN: 1.0, "racer": 0.9})
    assert made.failures == 1


def test_what_drafting_has_cost_decides_how_long_a_slow_drafter_stays():
    slow = {PLAIN: 1.0, "racer": 0.98}
    thrifty, spender = chooser("racer"), chooser("racer")
    spender.book(10, 10 + MEANS + 0.1)
    assert not thrifty.decide(0, slow)
    assert spender.decide(0, slow)
    assert spender.current == PLAIN


def test_little_of_what_was_saved_counts():
    made = chooser("racer")
    made.book(100, 20)
    made.book(1, 1 + SAVED + MEANS + 0.1)
    assert made.decide(0, {PLAIN: 1.0, "racer": 0.98})


def test_speeds_about_one_do_not_make_it_flap():
    """Text whose drafting is worth nothing, as noisy as a stretch of 16 tokens shows it."""
    draw, made, changes = random.Random(1), chooser("racer"), 0
    for position in range(0, 4000, 8):
        changes += made.decide(position, {PLAIN: 1.0, "racer": draw.gauss(1.0, 0.04)})
    assert changes <= 4000 / 400


def test_without_means_a_drafter_that_has_saved_nothing_is_left_as_soon_as_it_looks_slow():
    """So it is in a batch."""
    made = chooser("racer", means=0.0, loss=0.1)
    assert made.decide(0, {PLAIN: 1.0, "racer": 0.99})
    assert made.current == PLAIN

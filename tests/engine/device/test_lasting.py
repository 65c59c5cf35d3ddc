"""When a batch that drafts for itself rests: tries cost a share of the time, whoever comes and goes."""

from __future__ import annotations

import pytest

from engine.device.test_asking import ROWS, Device
from glimpse.engine.device.asking import BEGIN, LOOK
from glimpse.engine.device.lasting import KEPT, LastingAsking

TRIES, SHARE = 6, 0.01


def lasting(**seconds):
    device = Device(**seconds)
    device.asking = LastingAsking(TRIES, SHARE)
    return device


@pytest.mark.parametrize("drafted", [2.1, 3.0, 6.0])
def test_tries_that_do_not_pay_cost_a_share_of_the_time(drafted):
    """Steps that write twice as much and take longer than two plain ones."""
    device = lasting(drafted=drafted)
    device.steps(BEGIN + LOOK)
    found = device.steps(20_000)
    lost = found.count("a") * (drafted - 2) / 20_000
    assert 0 < lost <= 0.012
    assert {len(tries) for tries in found.strip("a").split(".") if tries} <= {TRIES, 2}


def test_rows_that_come_and_go_do_not_end_a_rest():
    device = lasting(drafted=3.0)
    device.steps(BEGIN + LOOK + 20)
    assert device.asking.rests(ROWS)
    assert device.steps(4, (0, 2)) == "...."
    assert device.steps(4, tuple(range(8))) == "aaaa", "a batch of another size is another question"


def test_a_batch_that_becomes_larger_and_smaller_rests_all_the_same():
    """Between 7 rows and 8 sizes change at every few steps: a rest of one goes on when it comes back."""
    device, large, small = lasting(drafted=3.0), tuple(range(8)), tuple(range(7))
    for rows in (large, small):
        device.steps(BEGIN + LOOK + 40, rows)
    before = device.asking.tried
    found = "".join(device.steps(5, rows) for _ in range(40) for rows in (large, small))
    assert found.count("a") <= 3 * TRIES
    assert device.asking.tried == before + found.count("a")


def test_drafts_that_hardly_pay_are_asked_for():
    assert lasting(drafted=1.99).steps(200).endswith("a" * 180)


def test_plain_steps_that_became_faster_are_noticed():
    device = lasting(drafted=1.5)
    assert device.steps(100).endswith("a" * 80)
    device.seconds[False] = 0.5
    device.steps(2 * KEPT)
    assert device.steps(100).count("a") < 20


def test_where_rows_never_stay_plain_steps_are_looked_at_as_often():
    """Times tell there once in `PATIENCE` steps: until then what was known holds."""
    device = lasting(drafted=1.5)
    turns = [(number, number + 1) for number in range(5000)]
    found = "".join(device.steps(1, rows) for rows in turns)
    assert found.count(".", 1000) <= 1.2 * LOOK * 4000 / KEPT
    device.seconds[False] = 0.5
    assert "".join(device.steps(1, rows) for rows in 4 * turns)[-KEPT:].count("a") < 20, "and noticed in the end"


def test_drafts_that_came_to_pay_are_found():
    device = lasting(drafted=3.0)
    device.steps(300)
    device.seconds[True] = 0.5
    assert device.steps(1000).endswith("a" * 50)


def test_a_step_may_be_plain_unasked():
    device = lasting(drafted=1.0)
    assert device.asking.asks(ROWS)
    device.asking.skip()
    assert not device.asking.asked

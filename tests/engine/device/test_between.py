"""What steps took, from end to end, and which of them say what others take."""

from __future__ import annotations

import pytest

from engine.device.test_asking import launched
from glimpse.engine.device.between import PATIENCE, SETTLED, Between

ROWS = (3, 5)


class Clock:
    """Steps that have been read, one after the other; what they took, or None, and whether that tells."""

    def __init__(self):
        self.between, self.now = Between(), 0.0

    def step(self, seconds=1.0, rows=ROWS, asked=False, wrote=True, **more):
        self.now += seconds
        step = launched(rows, [1] * len(rows), self.now, asked, **more)
        return self.between.seconds(step, rows, wrote=wrote), self.between.tells

    def settled(self):
        for _ in range(SETTLED + 1):
            self.step()
        return self


def test_a_step_is_timed_from_the_end_of_the_one_before():
    clock = Clock()
    assert clock.step() == (None, False)
    assert clock.step(2.0) == (2.0, False)
    for _ in range(SETTLED - 2):
        assert clock.step(2.0) == (2.0, False)
    assert clock.step(3.0) == (3.0, True)


@pytest.mark.parametrize("of", [{"late": True}, {"fresh": True}, {"drafts": True}, {"wrote": False}])
def test_of_some_nobody_knows_what_they_took(of):
    clock = Clock().settled()
    assert clock.step(**of) == (None, False)
    if of.get("drafts"):
        assert clock.step() == (None, False), "the way has changed back"
    assert clock.step() == (1.0, True)


def test_where_rows_change_some_steps_take_what_they_take_and_tell_nothing():
    clock = Clock().settled()
    for rows in ((3,), (3, 7)):
        for _ in range(SETTLED):
            assert clock.step(4.0, rows) == (4.0, False)
        assert clock.step(1.0, rows) == (1.0, True)


def test_a_plain_step_behind_one_that_was_asked_for_tells_nothing():
    """It was launched when that one had been read."""
    clock = Clock().settled()
    assert clock.step(2.0, asked=True) == (2.0, True)
    assert clock.step(1.5) == (1.5, False)
    assert clock.step() == (1.0, True)


def test_where_rows_never_stay_one_step_tells_after_many():
    clock = Clock()
    told = [clock.step(rows=(row,))[1] for row in range(3 * PATIENCE)]
    assert told.count(True) == 2
    assert told.index(True) == PATIENCE

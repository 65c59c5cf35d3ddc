"""When a draft is tried again, and for how long that is known beforehand."""

from __future__ import annotations

from glimpse.pacing.probe import HOLDS, Probe


def test_the_steps_left_are_those_before_the_next_trial():
    probe = Probe(first=20)
    assert probe.left() == HOLDS
    for _ in range(15):
        probe.count(False)
    assert probe.left() == 5
    for _ in range(5):
        assert not probe.due
        probe.count(False)
    assert probe.due


def test_a_trial_that_is_due_and_not_made_is_looked_at_again_later():
    probe = Probe(first=1)
    probe.count(False)
    assert probe.due
    assert probe.left() == HOLDS
    probe.count(True)
    assert probe.left() <= 2


def test_a_trial_under_way_is_due_no_more():
    """Its outcome may come a step late; it lengthens the wait once."""
    probe = Probe(first=2)
    for _ in range(2):
        probe.count(False)
    assert probe.due
    probe.take()
    assert not probe.due
    probe.count(False)
    probe.count(True)
    assert (probe.after, probe.plain_streak, probe.due) == (4, 0, False)
    probe.count(True)
    assert probe.after == 2

"""When a draft is tried again, and for how long that is known beforehand."""

from __future__ import annotations

from glimpse.pacing.probe import HOLDS, Probe


def test_the_steps_left_are_those_before_the_next_trial():
    probe = Probe(first=20)
    assert probe.left() == HOLDS
    for _ in range(15):
        probe.count(False)
    assert probe.left() == 5
    assert probe.left(rows=2) == 2  # two rows step together
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

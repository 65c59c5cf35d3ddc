"""Which way a GPU's batch drafts: by what both ways bring, with hysteresis, and looked at ever more seldom."""

from __future__ import annotations

import pytest

from glimpse.cache.rows import Rows, RowView
from glimpse.pacing.in_step import CLEAR, GUESS, HELD, LONGEST, OTHERS, OWN, TRIAL, InStep, Ways


class Fleet:
    """Says what it is told to say."""

    def __init__(self):
        self.speed, self.asked = 1.0, 0

    def gain(self, rows):
        self.asked += 1
        return self.speed

    def plain_seconds(self, rows):
        return 0.5


@pytest.fixture
def made():
    return InStep(Fleet(), Ways("racer", "sparse", "why"))


def view(count: int) -> RowView:
    rows = Rows(8, 64, 8)
    rows.committed_len[:] = 30
    rows.prompt_len[:] = 20
    return RowView(rows, tuple(range(count)))


def look(made: InStep, rows: RowView, brought, brings) -> dict:
    """A step of these rows was launched."""
    return {} if made.waits(rows.slots) else made.look(rows, brought, brings)


def looked(made: InStep, rows: RowView, brought: float | None = None, steps: int = OTHERS) -> dict:
    """What was said within so many steps."""
    said = {}
    for _ in range(steps):
        said |= look(made, rows, lambda: brought, lambda: None)
    return said


def test_it_goes_the_way_that_is_clearly_better_and_says_so(made):
    rows = view(3)
    first = look(made, rows, lambda: None, lambda: None)
    assert [first[slot].drafter for slot in range(3)] == ["racer"] * 3
    assert first[0].expected == {"none": 1.0, "racer": GUESS, "sparse": 1.0}
    made.fleet.speed = GUESS * CLEAR - 0.01
    assert looked(made, rows) == {}
    made.fleet.speed = 1.7
    said = looked(made, rows)
    assert made.chosen
    assert list(said) == [0, 1, 2]
    assert said[1].drafter == "sparse"
    assert (said[1].position, said[1].plain_s, said[1].note) == (10, 0.5, "why")
    assert said[1].expected == {"none": 1.0, "racer": GUESS, "sparse": 1.7}
    assert looked(made, rows, 1.7 - 0.01) == {}
    assert looked(made, rows, 1.7 + 0.01)[0].drafter == "racer"
    assert not made.chosen


def test_where_the_host_is_not_worth_it_it_says_plain_decoding(made):
    """The engine rests then; what is said has a margin, so that it is not said at every look."""
    rows = view(2)
    looked(made, rows, 1.3)
    assert looked(made, rows, 0.97) == {}
    said = looked(made, rows, 0.9)
    assert said[0].drafter == "none"
    assert said[0].expected["racer"] == 0.9
    assert looked(made, rows, 0.99) == {}
    assert looked(made, rows, 1.01)[1].drafter == "racer"


def test_drafts_of_its_own_have_to_beat_plain_decoding_too(made):
    made.fleet.speed = OWN - 0.01
    looked(made, view(2), 0.5, steps=2 * LONGEST)
    assert not made.chosen


def test_new_rows_are_told_once(made):
    looked(made, view(2), 1.3)
    said = looked(made, view(3), 1.3)
    assert list(said) == [2]
    made.leave(view(1))
    assert list(made.untold(view(3))) == [0]
    assert made.untold(view(3)) == {}


def test_it_looks_ever_more_seldom_until_the_batch_has_another_size(made):
    looked(made, view(2), 1.0, steps=1000)
    assert made.fleet.asked <= 8 + 1000 // LONGEST
    before = made.fleet.asked
    looked(made, view(2), 1.0, steps=LONGEST // 2)
    assert made.fleet.asked - before <= 1
    before = made.fleet.asked
    looked(made, view(5), 1.0, steps=HELD + 1)
    assert made.fleet.asked - before == 2


def test_a_size_that_was_looked_at_lately_is_not_looked_at_again(made):
    """Rows come and go around a power of two; once the way has changed all sizes are looked at anew."""
    for _ in range(4 * LONGEST):
        looked(made, view(3), 1.0, steps=1)
        looked(made, view(4), 1.0, steps=1)
    assert made.fleet.asked <= 2 * (6 + 4)
    before, made.fleet.speed = made.fleet.asked, 2.0
    looked(made, view(3), 1.0)
    assert made.chosen
    looked(made, view(4), 1.0, steps=1)
    assert made.fleet.asked > before + 1


def test_the_host_is_tried_again_after_long(made):
    """What it brought last may have changed since; a trial that changes nothing is repeated after twice as long."""
    rows, made.fleet.speed = view(2), 2.0
    ways = []
    for _ in range(7 * TRIAL):
        look(made, rows, lambda: 1.1, lambda: None)
        ways.append(made.chosen)
    trials = [at for at in range(1, len(ways)) if ways[at - 1] and not ways[at]]
    assert len(trials) == 2
    assert trials[0] == pytest.approx(TRIAL, rel=0.15)
    assert trials[1] - trials[0] == pytest.approx(2 * TRIAL, rel=0.15)
    assert ways.count(False) <= 4 * HELD


def test_drafts_of_its_own_are_believed_as_far_as_they_were_measured(made):
    """The host's time is in no price of a round: 1.3 on the device were 0.9 from step to step."""
    rows, made.fleet.speed = view(3), 1.3
    looked(made, rows, 0.5)
    assert made.chosen
    for _ in range(4 * LONGEST):
        look(made, rows, lambda: 0.5, lambda: 0.9)
        if not made.chosen:
            break
    assert not made.chosen
    assert 0.9 < made._itself < 1.0
    looked(made, rows, 0.5, steps=4 * LONGEST)
    assert not made.chosen, "what was missing is not forgotten at once"
    looked(made, rows, 0.5, steps=60 * LONGEST)
    assert made.chosen, "but after long: batches and texts change"


def test_more_than_was_reckoned_is_not_believed(made):
    rows, made.fleet.speed = view(3), 1.3
    looked(made, rows, 0.5)
    for _ in range(LONGEST):
        look(made, rows, lambda: 0.5, lambda: 2.0)
    assert made._itself == 1.3

"""Which way a GPU's batch drafts: by what both ways promise, with hysteresis, and looked at ever more seldom."""

from __future__ import annotations

import pytest

from glimpse.cache.rows import Rows, RowView
from glimpse.pacing.in_step import CLEAR, HELD, LEAST, LONGEST, InStep


class Fleet:
    """Says what it is told to say."""

    def __init__(self):
        self.speed = 1.0

    def gain(self, rows):
        return self.speed

    def plain_seconds(self, rows):
        return 0.5


class Host:
    """Promises what it is told to promise."""

    def __init__(self):
        self.promise, self.watched = 1.0, 0

    def promised(self, rows):
        return self.promise

    def watch(self, rows):
        self.watched += 1


@pytest.fixture
def made():
    return InStep(Fleet(), Host(), "sparse", "why")


def view(count: int) -> RowView:
    rows = Rows(8, 64, 8)
    rows.committed_len[:] = 30
    rows.prompt_len[:] = 20
    return RowView(rows, tuple(range(count)))


def looked(made: InStep, rows: RowView, brought: float | None = None, steps: int = LONGEST) -> dict:
    """What was said within so many steps."""
    said = {}
    for _ in range(steps):
        said |= made.look(rows, brought)
    return said


def test_it_goes_the_way_that_is_clearly_better_and_says_so(made):
    rows = view(3)
    assert made.look(rows, None) == {}
    made.fleet.speed = CLEAR - 0.01
    assert looked(made, rows) == {}
    made.fleet.speed = 1.7
    said = looked(made, rows)
    assert made.chosen
    assert list(said) == [0, 1, 2]
    assert said[1].drafter == "sparse"
    assert (said[1].position, said[1].plain_s, said[1].note) == (10, 0.5, "why")
    assert said[1].expected == {"none": 1.0, "host drafts": 1.0, "sparse": 1.7}
    made._host.promise = 1.7 * CLEAR - 0.01
    assert looked(made, rows) == {}
    made._host.promise = 2.0
    assert looked(made, rows)[0].drafter == "none"
    assert not made.chosen


def test_promises_count_for_what_they_have_brought(made):
    """Host drafts that promise 2 and bring 0.8 are worth no more than plain decoding, until text repeats itself."""
    rows, made._host.promise = view(2), 2.0
    made.fleet.speed = 1.3
    assert looked(made, rows) == {}
    assert looked(made, rows, brought=0.8, steps=4 * LONGEST)
    assert made.chosen
    made._host.promise = 1.3 * CLEAR / LEAST + 0.1
    looked(made, rows, steps=2 * LONGEST)
    assert not made.chosen


def test_shadows_watch_only_rows_that_draft_for_themselves(made):
    rows = view(2)
    looked(made, rows)
    assert made._host.watched == 0
    made.fleet.speed = 2.0
    looked(made, rows, steps=3 * LONGEST)
    assert made._host.watched > 0


def test_it_looks_ever_more_seldom_until_the_batch_has_another_size(made):
    rows, asked = view(2), []
    made.fleet.gain = lambda rows: asked.append(len(rows)) or 1.0
    looked(made, rows, steps=1000)
    assert len(asked) <= 4 + 1000 // LONGEST + 1
    before = len(asked)
    made.look(view(5), None)
    assert len(asked) == before + 1
    looked(made, view(5), steps=2 * HELD)
    assert len(asked) == before + 2


def test_rows_that_join_a_batch_that_drafts_for_itself_are_told(made):
    assert made.joined(view(1)) == {}
    made.fleet.speed = 2.0
    looked(made, view(2))
    assert made.joined(view(1))[0].drafter == "sparse"

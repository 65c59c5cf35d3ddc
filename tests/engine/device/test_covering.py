"""Shapes that graphs are captured for."""

from __future__ import annotations

import pytest

from glimpse.engine.device.covering import CAPTURE, FREE, PATIENCE, SLIGHT, SPARE, Covering, ladder


class Made:
    """Graphs that are made as soon as they are asked for."""

    def __init__(self, *shapes, allows=True, step_seconds=CAPTURE):
        self.made, self.allowed, self.step_seconds = list(shapes), allows, step_seconds

    def shapes(self, kind):
        return self.made if kind == "step" else []

    def holds(self, kind, shape):
        return shape in self.shapes(kind)

    def allows(self):
        return self.allowed

    def run(self, covering, wanted, ample, kind="step"):
        shape = covering.choose(kind, wanted, ample)
        if shape not in self.made:
            self.made.append(shape)
        return shape


def test_a_shape_is_run_in_one_that_covers_it_until_it_was_wanted_often():
    made = Made((96, 8, 17))
    shapes = Covering(made)
    small = [made.run(shapes, (64, 8, 9), (64, 8, 9)) for _ in range(PATIENCE + 2)]
    assert small == [(96, 8, 17)] * PATIENCE + [(64, 8, 9)] * 2


@pytest.mark.parametrize(("found", "share"), [((FREE, 8, 17), SLIGHT), ((2 * FREE, 8, 17), 1 - (1 - SLIGHT) / 2)])
def test_a_graph_of_its_own_has_to_be_earned(found, share):
    """By the padding that steps had until then; tokens that wait for the weights cost hardly anything."""
    made = Made(found, step_seconds=0.002)
    shapes = Covering(made)
    runs = 0
    while made.run(shapes, (32, 8, 9), (32, 8, 9)) == found:
        runs += 1
    assert runs == pytest.approx(CAPTURE / (0.002 * share), abs=1)
    assert made.run(shapes, (48, 8, 9), (48, 8, 9)) == found, "each by itself"


def test_it_gets_none_where_there_is_no_time():
    made = Made((96, 8, 17), allows=False)
    shapes = Covering(made)
    assert {made.run(shapes, (64, 8, 9), (64, 8, 9)) for _ in range(3 * PATIENCE)} == {(96, 8, 17)}


def test_the_fewest_tokens_are_taken_then_the_least_of_the_rest():
    shapes = Covering(Made((128, 8, 64), (96, 64, 64), (96, 16, 17), (96, 8, 64)))
    assert shapes.find("step", (64, 8, 9)) == (96, 16, 17)
    assert shapes.find("step", (64, 8, 33)) == (96, 8, 64)
    assert shapes.find("step", (64, 16, 33)) == (96, 64, 64)
    assert shapes.find("step", (100, 8, 9)) == (128, 8, 64)


@pytest.mark.parametrize("wanted", [(128, 8, 9), (64, 16, 9), (64, 8, 33)])
def test_nothing_covers_what_is_more_in_any_way(wanted):
    assert Covering(Made((96, 8, 17))).find("step", wanted) is None


def test_other_kinds_of_steps_cover_nothing():
    assert Covering(Made((96, 8, 17))).find("other", (64, 8, 9)) is None


def test_padding_is_taken_as_long_as_it_costs_little():
    shapes = Covering(Made((FREE, 1, 9)))
    assert shapes.find("step", (1, 1, 1)) == (FREE, 1, 9)
    shapes = Covering(Made((SPARE * 30, 8, 9)))
    assert shapes.find("step", (30, 8, 9)) == (SPARE * 30, 8, 9)
    assert shapes.find("step", (29, 8, 9)) is None


def test_where_nothing_covers_a_larger_one_is_made_even_without_time():
    made = Made(allows=False)
    assert made.run(Covering(made), (20, 2, 9), (64, 4, 64)) == (64, 4, 64)


def test_sizes_of_graphs_that_cover_others():
    assert [ladder(count, 48) for count in (1, 2, 4, 5, 16, 17, 48)] == [1, 4, 4, 16, 16, 48, 48]
    assert [ladder(count, 10**6) for count in (64, 65, 257)] == [64, 256, 1024]

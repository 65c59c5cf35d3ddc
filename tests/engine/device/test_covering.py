"""Shapes that graphs are captured for."""

from __future__ import annotations

from glimpse.engine.device.covering import PATIENCE, Covering


def test_a_shape_is_run_in_one_that_covers_it_until_it_was_wanted_often():
    shapes = Covering()
    assert shapes.choose((8, 96, 17), (8, 128, 17)) == (8, 128, 17)
    small = [shapes.choose((8, 64, 9), (8, 64, 9)) for _ in range(PATIENCE + 2)]
    assert small == [(8, 128, 17)] * PATIENCE + [(8, 64, 9)] * 2


def test_the_smallest_cover_is_taken():
    shapes = Covering()
    for ample in ((8, 512, 64), (8, 128, 17)):
        assert shapes.choose(ample, ample) in ((8, 512, 64), (8, 128, 17))
    for _ in range(PATIENCE + 1):
        shapes.choose((8, 128, 17), (8, 128, 17))
    assert shapes.choose((8, 64, 9), (8, 64, 9)) == (8, 128, 17)
    assert shapes.choose((8, 64, 33), (8, 64, 33)) == (8, 512, 64)


def test_other_rows_and_larger_shapes_are_not_covered():
    shapes = Covering()
    shapes.choose((8, 128, 17), (8, 128, 17))
    assert shapes.choose((4, 64, 9), (4, 64, 9)) == (4, 64, 9)
    assert shapes.choose((8, 64, 33), (8, 64, 33)) == (8, 64, 33)
    assert shapes.choose((8, 192, 9), (8, 256, 9)) == (8, 256, 9)


def test_a_shape_whose_graph_is_gone_covers_nothing():
    shapes = Covering()
    shapes.choose((8, 128, 17), (8, 128, 17))
    shapes.drop((8, 128, 17))
    assert shapes.choose((8, 64, 9), (8, 64, 9)) == (8, 64, 9)

"""With how many query tokens trees are said to be verified, and whether they are."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from engine.device.launches import watched
from engine.device.standins import Counted
from engine.device.test_few_shapes import make_core
from glimpse.engine.device.covering import FREE, PATIENCE, node_bucket
from glimpse.engine.device.launch import Launcher
from glimpse.engine.device.ready import capture_all
from glimpse.engine.device.tree_launch import TreeMove


@pytest.fixture
def launcher(monkeypatch):
    """After a warm-up, of eight rows."""
    made = Launcher(make_core("narrow", 8, 63, trees=True), exact=False)
    made.graphs = Counted(made._core, monkeypatch)
    with watched(), torch.inference_mode():
        capture_all(made.ready(0, mixes=False), made.graphs, nullcontext())
        yield made


def ran(launcher: Launcher, *nodes: int) -> int:
    """With how many tokens a verification of rows with so many nodes each is run."""
    return launcher.trees(TreeMove(nodes, (1,) * len(nodes), np.zeros(1, np.int64)))[1]


def uneven(rows: int, mean: int) -> list[int]:
    """Nodes of so many rows, of which the first has twice the mean and the others share the rest."""
    if rows == 1:
        return [mean]
    each, more = divmod((rows - 2) * mean, rows - 1)
    return [2 * mean, *(each + (row < more) for row in range(rows - 1))]


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_small_steps_run_as_it_is_said_of_them(launcher, rows):
    sizes = launcher.tree_sizes
    for nodes in range(1, FREE // rows):
        said = sizes.run_with(rows, rows * (1 + nodes))
        assert ran(launcher, *[nodes] * rows) <= said <= FREE
        if rows == 1 or 2 * nodes < FREE:
            assert ran(launcher, *uneven(rows, nodes)) == said
    assert sizes.run_with(rows, 2 * FREE - 1) == node_bucket(2 * FREE - 1), "as they will once they are asked for"


def test_a_tree_of_one_row_has_room_up_to_what_covers_it(launcher):
    """After a warm-up there is no graph of 32 tokens: 16 nodes to 63 cost the same."""
    sizes = launcher.tree_sizes
    assert [sizes.run_with(1, 1 + nodes) for nodes in (0, 3, 8, 15, 16, 31, 63)] == [1, 4, 16, 16, 64, 64, 64]


def test_a_graph_of_its_own_is_another_version(launcher):
    sizes = launcher.tree_sizes
    version = sizes.version
    ran(launcher, 31)
    assert sizes.version == version
    launcher.graphs._gaps.extend([1.0] * 32)  # steps that take a second: padding is soon dear
    for _ in range(PATIENCE + 1):
        run = ran(launcher, 31)
    assert run == 32
    assert sizes.version != version
    assert [sizes.run_with(1, 1 + nodes) for nodes in (20, 31, 32)] == [32, 32, 64]
    launcher.graphs.drop("tree", lambda shape: shape[0] == 32)
    assert sizes.run_with(1, 32) == 64

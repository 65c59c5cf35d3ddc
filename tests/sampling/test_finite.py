"""Case A53: logits that are not numbers are named, and only their rows."""

import math

import pytest
import torch

from glimpse.sampling import Nodes, nonfinite_rows


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_row_and_node_are_named(bad):
    logits = torch.randn(5, 50)
    logits[3, 17] = bad
    nodes = Nodes.verifying([6, 2], [10, 40], [0, 0], [1, 2, 3], [-1, -1, 0], [0, 1, 3])
    found = nonfinite_rows(logits, nodes)
    assert list(found) == [2]
    assert "row 2, node 1 (position 41)" in str(found[2])


def test_nothing_left_is_bad_but_single_minus_infinities_are_legal():
    logits = torch.zeros(2, 4)
    logits[0, 1:] = -math.inf
    assert nonfinite_rows(logits, Nodes.plain([0, 1], [1, 1], [0, 0])) == {}
    logits[1] = -math.inf
    assert list(nonfinite_rows(logits, Nodes.plain([0, 1], [1, 1], [0, 0]))) == [1]

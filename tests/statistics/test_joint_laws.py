"""Every rule x every kind of draft, chains and trees, x every option: the joint law of the first two tokens.

The same cells as `python -m benchmarks.laws`, at fewer draws; and that the test sees what it is for.
"""

from itertools import product

import pytest
from benchmarks.laws import LEVEL, grid_cell, power_cell
from benchmarks.laws_toy import KINDS, OPTIONS, VOCAB, joint_by_hand

from glimpse import acceptance

DRAWS = 2000
MANY = 30_000
CELLS = [
    (rule, kind, options)
    for rule, kind, options in product(["coupled", "matched", "rejection"], KINDS, OPTIONS)
    if acceptance.resolve(rule).trees or "tree" not in kind
]


@pytest.mark.parametrize(("rule", "kind", "options"), CELLS, ids=["-".join(cell) for cell in CELLS])
def test_joint_law(rule, kind, options):
    assert grid_cell(rule, kind, options, DRAWS)["p"] >= LEVEL


@pytest.mark.parametrize("options", OPTIONS)
def test_the_law_by_hand_is_one(options):
    law = joint_by_hand(OPTIONS[options])
    assert len(law) == VOCAB * VOCAB
    assert sum(law) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
@pytest.mark.parametrize("options", ["none", "all"])
def test_a_bias_of_two_hundredths_is_seen(rule, options):
    """Power: 0.02 of probability moved from one token to another is refused, for every rule."""
    assert power_cell(rule, "copied", options, MANY)["p"] < LEVEL

"""Branches on a spine: the likeliest first, within nodes and depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.drafting.spine.drafter import BRANCHES
from glimpse.drafting.spine.growing import FLOOR, Growth, Spine
from glimpse.drafting.tree import Source

SPINE = Spine([10, 11], [0.7, 0.6], [[(20, 0.2), (21, 0.1)], [(30, 0.35)]])
AFTER = {11: [(12, 0.5), (13, 0.25)], 20: [(22, 0.9)], 22: [(23, 0.9)]}


def grow(budget=64, depth=8, sources=BRANCHES, spine=SPINE):
    return Growth(budget, depth, lambda token: AFTER.get(token, ()), sources).grow(spine)


def test_the_spine_comes_first_and_the_likeliest_branch_next():
    tree = grow()
    assert tree.tokens.tolist() == [10, 11, 30, 12, 20, 22, 23, 13, 21]
    assert tree.parents.tolist() == [-1, 0, 0, 1, -1, 4, 5, 1, -1]
    assert tree.reach.tolist() == pytest.approx([0.7, 0.42, 0.245, 0.21, 0.2, 0.18, 0.162, 0.105, 0.1])
    kinds = {Source.SPINE: 2, Source.RUNNER_UP: 3, Source.LOGITS: 4}
    assert {kind: tree.source.tolist().count(kind) for kind in kinds} == kinds


def test_only_what_is_wanted():
    assert grow(sources={Source.RUNNER_UP}).tokens.tolist() == [10, 11, 30, 20, 21]
    assert grow(sources=frozenset()).tokens.tolist() == [10, 11]


def test_budget_and_depth_bound_the_tree():
    assert grow(budget=5).tokens.tolist() == [10, 11, 30, 12, 20]
    assert grow(budget=1).tokens.tolist() == [10]
    assert grow(depth=2).tokens.tolist() == [10, 11, 30, 20, 22, 21]
    assert len(grow(depth=0)) == 0


def test_a_token_beside_itself_is_no_branch():
    """What follows a branch or stands beside the spine may be there already."""
    spine = Spine([10, 11], [0.7, 0.6], [[(10, 0.2), (20, 0.1), (20, 0.1)], []])
    tree = grow(spine=spine)
    pairs = list(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))


CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(CHANCES, st.integers(1, 30), st.integers(1, 6), st.integers(0, 1000))
def test_any_tree_is_one(chances, budget, depth, seed):
    """Parents first, siblings differ, none likelier than its parent, no likelier branch left out for a rarer one."""
    draw = np.random.default_rng(seed)
    choices = [[(int(draw.integers(5)), float(p)) for p in -np.sort(-draw.dirichlet(np.ones(3)))] for _ in range(5)]
    spine = Spine(list(range(len(chances))), chances, [choices[place % 5] for place in range(len(chances))])
    tree = Growth(budget, depth, lambda token: choices[token % 5], BRANCHES).grow(spine)
    assert len(tree) <= budget
    depths = []
    for node, parent in enumerate(tree.parents.tolist()):
        assert parent < node
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
        assert tree.reach[node] <= (tree.reach[parent] if parent >= 0 else 1) + 1e-6
    assert max(depths) <= depth
    assert len({*zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True)}) == len(tree)
    branches = tree.reach[tree.source != Source.SPINE]
    assert (np.diff(branches) <= 1e-6).all()
    assert (branches >= np.float32(FLOOR)).all()

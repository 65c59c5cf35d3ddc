"""Trees of all rows as arrays: what stands in the rows, and what is refused, is as the eager planner has it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.doubles import HostDrafter, RandomPacer
from tests.trees import tree_draft

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.tree_planner import TreePlanner
from glimpse.engine.device.tree_shapes import copy_out
from glimpse.engine.draft_check import tree_depth
from glimpse.engine.phases import PhasePlanner
from glimpse.errors import GlimpseError
from glimpse.pacing.pacer import Action

VOCAB, MOST, LENGTH = 50, 12, 10
LIMITS = (LENGTH + 1, 14, 30)
"""No room for a draft, for three tokens of one, and for many."""


class Given(HostDrafter):
    """Drafts what it is told to."""

    gives_tree, budget = True, MOST

    def __init__(self, draft):
        super().__init__()
        self.draft = draft

    def plan(self, rows, room):
        return self.draft


class Drafting(RandomPacer):
    """All rows with room draft; what is drafted is cut at random."""

    def _action(self, left):
        return Action.DRAFT if left > 0 else Action.PLAIN


def running(count):
    """Requests of which nothing is asked."""
    return {slot: SimpleNamespace() for slot in range(count)}


@dataclass
class Batch:
    """Three rows of one length, drafter and pacer, as both planners have them."""

    rows: Rows
    drafter: Given
    pacer: Drafting

    @property
    def parts(self):
        return SimpleNamespace(
            rows=self.rows, drafter=self.drafter, pacer=self.pacer, sampler=SimpleNamespace(vocab_size=VOCAB)
        )


def batch(draft, pages=20):
    rows = Rows(3, 60, MOST)
    pool = PagePool(CacheShape(1, 1, 8), pages, 4, torch.float32)
    for slot, limit in enumerate(LIMITS):
        sequence = Sequence(pool, expected=limit)
        sequence.reserve(limit)
        rows.open(slot, list(range(LENGTH)), sequence, limit)
        rows.verified_len[slot] = LENGTH - 1
    return Batch(rows, Given(draft), Drafting(MOST, seed=4))


def some_tree(draw, nodes, depth):
    made, depths = [], []
    while len(made) < nodes:
        parent = draw.randrange(-1, len(made))
        below = depths[parent] if parent >= 0 else 0
        node = (draw.randrange(VOCAB), parent)
        if below < depth and node not in made:
            made.append(node)
            depths.append(below + 1)
    return made


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("pages", [20, 16])
def test_the_rows_are_the_eager_planners(seed, pages):
    """Trees and chains, cut at random and, where pages are short, to what has a place."""
    draw = random.Random(seed)
    chain = [(token, token - 1) for token in range(draw.randrange(4))]
    draft = tree_draft(*draw.sample([chain, some_tree(draw, 3, 3), some_tree(draw, MOST, 3)], 2))
    theirs, ours = batch(draft, pages), batch(draft, pages)
    PhasePlanner(theirs.rows, theirs.drafter, theirs.pacer, VOCAB).plan(dict.fromkeys(range(3)))
    counts = TreePlanner(ours.parts, MOST).plan(running(3), plain=False)
    assert counts == theirs.rows.draft_len.tolist()
    assert ours.rows.branching == theirs.rows.branching
    for slot, count in enumerate(counts):
        for name in ("draft_parents", "draft_confidence", "draft_source"):
            mine, right = (getattr(each.rows, name)[slot, :count] for each in (ours, theirs))
            torch.testing.assert_close(mine, right)
        assert torch.equal(ours.rows.tokens[slot], theirs.rows.tokens[slot])
        assert len(ours.rows.sequence(slot).pages) >= -(-(LENGTH + count) // 4)


def test_a_plain_step_drops_what_is_there():
    made = batch(tree_draft([(1, -1), (2, -1)], [(3, -1)]))
    made.rows.put_draft(1, torch.tensor([5, 6]), torch.tensor([-1, -1]), torch.ones(2))
    assert TreePlanner(made.parts, MOST).plan(running(3), plain=True) == [0, 0, 0]
    assert not made.rows.branching
    assert made.rows.draft_parents[1].tolist() == list(range(-1, MOST - 1))


def test_a_sheet_says_what_stands_in_the_rows():
    """Of rows in any order, one of which has no draft; what they feed, and how deep their trees are."""
    made = batch(tree_draft())
    trees, last = {2: [(1, -1), (2, -1), (3, 1), (4, 2)], 0: [], 1: [(5, -1), (6, 0)]}, LENGTH - 1
    for slot, nodes in trees.items():
        if nodes:
            tokens, parents = (torch.tensor(part) for part in zip(*nodes, strict=True))
            made.rows.put_draft(slot, tokens, parents, torch.ones(len(nodes)))
    own, sheet = made.rows.arrays, np.full((4, 2 * MOST + 1), 77, np.int32)
    fed, depths = np.zeros(3 + 6, np.int64), np.zeros(3, np.int64)
    copy_out(np.array(list(trees)), own.tokens, own.committed, own.counts, own.parents, sheet, fed, depths)
    for row, nodes in enumerate(trees.values()):
        count = len(nodes)
        assert sheet[row, -1] == count
        assert list(zip(sheet[row, :count].tolist(), sheet[row, MOST : MOST + count].tolist(), strict=True)) == nodes
        assert depths[row] == tree_depth([parent for _, parent in nodes])
    assert fed.tolist() == [last, 1, 2, 3, 4, last, last, 5, 6]
    assert (sheet[3] == 77).all(), "a row that does not run"


WRONG = {
    "drafted token id 50; ids are from 0 to 49": [(50, -1), (2, -1)],
    "gave node 1 the parent 1; it must be from -1 to 0": [(1, -1), (2, 1)],
    "drafted token id 7 twice after node -1": [(7, -1), (7, -1)],
    "drafted 4 tokens where 3 were asked": [(1, -1), (2, 0), (3, 1), (4, 2)],
    "gave a tree of 13 nodes; 12 are the most": [(token, -1) for token in range(13)],
}


@pytest.mark.parametrize("said", WRONG)
def test_a_draft_that_would_break_a_row_is_refused(said):
    made = batch(tree_draft(WRONG[said], []))
    with pytest.raises(GlimpseError, match=f"drafter 'double' {said}"):
        TreePlanner(made.parts, MOST).plan(running(3), plain=False)


@pytest.mark.parametrize("name", ["parents", "confidence", "offsets"])
def test_a_draft_whose_parts_do_not_fit_is_refused(name):
    draft = tree_draft([(1, -1), (2, -1)], [(3, -1)])
    draft = replace(draft, **{name: getattr(draft, name)[:-1]})
    made = batch(draft)
    with pytest.raises(GlimpseError, match="drafter 'double'"):
        TreePlanner(made.parts, MOST).plan(running(3), plain=False)

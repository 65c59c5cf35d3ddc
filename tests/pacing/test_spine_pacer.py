"""Pacing spines with branches: what is kept pays, and the inner pacer hears of chains."""

from __future__ import annotations

import pytest
import torch
from tests.doubles import RandomPacer

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.tree import Source
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import PaceContext
from glimpse.pacing.spine import SpinePacer

SPINE, BRANCH = int(Source.SPINE), int(Source.RUNNER_UP)


class Hearing(RandomPacer):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__(8)
        self.heard = []

    def observe(self, rows, outcomes):
        self.heard += outcomes


def setup(token=1e-4, step=1e-2):
    """A pacer of one row whose steps cost `step` and `token` a node; and the row, with a spine and two branches."""
    costs = StepCosts(1, 1, start=[step, token, 1e-4, 0, 0, 0, 0, 0, 0])
    pacer = SpinePacer(Hearing(), PaceContext(costs, None, False, lambda length: 16, branches=True))
    rows, pool = Rows(1, 64, 16), PagePool(CacheShape(1, 1, 4), 8, 16, torch.float32)
    rows.open(0, list(range(20)), Sequence(pool, expected=40), 60)
    view = RowView(rows, (0,))
    pacer.admit(view)
    for token_id in (30, 31, 32):
        rows.add_draft(0, token_id, 0.5, 0.25)
    facts = ([30, 31, 32, 41, 40], [-1, 0, 1, 0, -1], [0.8, 0.5, 0.1, 0.4, 0.1])
    tokens, parents, chances = map(torch.tensor, facts)
    rows.put_branches(0, 3, tokens, parents, chances, torch.tensor([SPINE] * 3 + [BRANCH] * 2))
    return pacer, view


@pytest.mark.parametrize(
    ("token", "kept"), [(1e-6, [30, 31, 32, 41, 40]), (1e-2, [30, 31, 41]), (9e-2, [30]), (0.5, [])]
)
def test_a_node_is_kept_while_it_pays(token, kept):
    """Of four steps, at 10 ms each, that make 2.6 tokens or so: nodes of 10 ms pay from about a third on."""
    pacer, view = setup(token)
    rows = view.rows
    assert pacer.trim(view) == [len(kept)]
    assert rows.tokens[0, 20 : 20 + len(kept)].tolist() == kept
    if len(kept) == 3:
        assert rows.draft_parents[0, :3].tolist() == [-1, 0, 0]
        assert rows.draft_entropy[0, :3].nan_to_num(-1).tolist() == [0.25, 0.25, -1]


@pytest.mark.parametrize(("path", "accepted"), [([], 0), ([0], 1), ([0, 1, 2], 3), ([0, 3], 1), ([4], 0), ([0, 1], 2)])
def test_the_inner_pacer_hears_of_the_spine_alone(path, accepted):
    pacer, view = setup(1e-6)
    pacer.trim(view)
    tokens = [*(int(view.rows.tokens[0, 20 + node]) for node in path), 50]
    pacer.observe(view, [Outcome(0, 5, len(path), tokens, path=path)])
    heard = pacer._inner.heard[0]
    assert (heard.drafted, heard.accepted, heard.path) == (3, accepted, None)


def test_branches_that_are_never_right_stop_paying():
    pacer, view = setup(4e-3)
    kept = pacer.trim(view)[0]
    for _ in range(20):
        pacer._states[0].trust.learn(pacer._states[0].proposal, [50])
    _, again = setup(4e-3)
    assert pacer.trim(again)[0] < kept


def test_retire_leaves_nothing():
    pacer, view = setup()
    pacer.retire(view)
    assert not pacer._states
    assert not pacer._inner.admitted


def test_marginal_paces_spines_by_entropy():
    context = PaceContext(StepCosts(1, 1), None, False, lambda length: 16, branches=True)
    pacer = MarginalPacer.build(context)
    assert isinstance(pacer, SpinePacer)
    assert (pacer.name, pacer.most) == ("entropy", 16)

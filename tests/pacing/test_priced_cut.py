"""Drafts cut in one loop are what they are when looked at, believed, priced and kept one after the other."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cuts import right_cut

from glimpse.cache.rows import Rows, RowView
from glimpse.pacing.cutting import Market, cut
from glimpse.pacing.proposals import Proposal, Trust

NODES = 20
PRICES = [0.003, 0.03, 0.1, 0.4]


def some_tree(draw: random.Random, branches: float) -> tuple[list[int], list[int]]:
    """Tokens and parents; a node that does not branch off hangs on the one before it."""
    tokens = [draw.randrange(50) for _ in range(draw.randrange(NODES))]
    parents = [draw.randrange(-1, node) if node and draw.random() < branches else node - 1
               for node in range(len(tokens))]  # fmt: skip
    return tokens, parents


def batch(seed: int) -> tuple[RowView, list[Trust]]:
    """Rows of many lengths with trees, chains or nothing, in no order; some chances are equal, each row has learned
    something else."""
    draw, rows = random.Random(seed), Rows(6, 400, NODES)
    view = RowView(rows, tuple(draw.sample(range(6), 5)))
    trusts = [Trust() for _ in view.slots]
    for slot, trust in zip(view.slots, trusts, strict=True):
        rows.committed_len[slot] = draw.randrange(1, 300)
        tokens, parents = some_tree(draw, draw.choice([0.0, 0.5, 0.9]))
        chances = [draw.choice([0.9, 0.5, 0.25, 0.01, draw.random()]) for _ in tokens]
        sources = torch.tensor([draw.choice([1, 2, 17]) for _ in tokens], dtype=torch.uint8)
        facts = torch.tensor(tokens, dtype=torch.int64), torch.tensor(parents, dtype=torch.int64), torch.tensor(chances)
        rows.put_draft(slot, *facts, sources)
        rows.draft_entropy[slot, : len(tokens)] = torch.arange(len(tokens)) + 10 * slot
        for _ in range(4):
            trust.learn(Proposal.of(view, slot), [draw.choice(tokens or [0]) for _ in range(3)])
    return view, trusts


def market(seed: int, view: RowView) -> Market:
    draw = np.random.default_rng(seed)
    nodes = sum(view.column(view.rows.draft_len))
    extra = draw.uniform(-0.2, 0.2, nodes + 1) if seed % 2 else None
    plain = float(draw.uniform(0.8, 1.0))
    return Market(len(view) + 1, 1.0, plain, PRICES[seed % 4], 1e-4 if seed % 3 else 0.0, extra)


@pytest.mark.parametrize("seed", range(24))
def test_one_loop_does_what_its_parts_do(seed):
    """To the last bit: also in the rows that are left alone."""
    (ours, trusts), (theirs, same) = batch(seed), batch(seed)
    found, sizes = cut(ours, trusts, market(seed, ours))
    right, counts = right_cut(theirs, same, market(seed, theirs))
    assert sizes == counts
    assert ours.rows.branching == theirs.rows.branching
    for name in ("tokens", "parents", "said", "source", "depth"):
        np.testing.assert_array_equal(getattr(found.nodes, name), getattr(right.nodes, name))
    np.testing.assert_array_equal(found.ends, right.ends)
    for name in ("tokens", "draft_parents", "draft_confidence", "draft_source", "draft_entropy"):
        np.testing.assert_array_equal(getattr(ours.rows, name).numpy(), getattr(theirs.rows, name).numpy())
    trees = [slot for slot in ours.slots if slot in theirs.rows.branching]
    assert ours.rows.draft_len[trees].tolist() == theirs.rows.draft_len[trees].tolist()


def test_the_batches_have_all_kinds_of_rows():
    """Some rows keep all, some a part, some nothing; trees become chains."""
    seen = set()
    for seed in range(24):
        view, trusts = batch(seed)
        before, trees = view.column(view.rows.draft_len), set(view.rows.branching)
        _, sizes = cut(view, trusts, market(seed, view))
        seen |= {(size == 0, size == count) for size, count in zip(sizes, before, strict=True) if count}
        seen |= {"became a chain"} if trees - view.rows.branching else set()
    assert seen == {(True, False), (False, False), (False, True), "became a chain"}


def test_a_row_that_costs_more_keeps_less():
    """Two rows with the same draft, one ten times as long."""
    rows = Rows(2, 400, NODES)
    for slot, length in enumerate((30, 300)):
        rows.committed_len[slot] = length
        rows.put_draft(slot, torch.arange(8), torch.full((8,), -1), torch.full((8,), 0.1))
    view = RowView(rows, (0, 1))
    dear = Market(2, 1.0, 1.0, 0.0, 1e-4)
    assert cut(view, [Trust(), Trust()], replace(dear, position=3e-4))[1] == [8, 0]

"""Nodes that are kept stand in their rows as a draft of them alone would."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.pacing.keeping import keep_nodes
from glimpse.pacing.proposals import Proposal, Proposals, Trust, believed

TOKENS, PARENTS, SOURCE = torch.tensor([8, 9, 10, 11, 12]), [-1, 0, -1, 1, 2], torch.arange(5)
CHANCES = torch.tensor([0.5, 0.8, 0.4, 0.0, 0.9])
KEPT = [[2, 0, 4], [0, 1, 3], [0, 2], []]


def rows_of(count: int) -> Rows:
    pool = PagePool(CacheShape(1, 1, 4), 8 * count, 4, torch.float32)
    rows = Rows(count, 40, 8)
    for slot in range(count):
        rows.open(slot, [5, 6, 7][: 1 + slot % 3], Sequence(pool, expected=20), 20)
    return rows


def put(rows: Rows, slot: int) -> None:
    rows.put_draft(slot, TOKENS, torch.tensor(PARENTS), CHANCES, SOURCE)
    rows.draft_entropy[slot, :5] = torch.arange(5.0)


@pytest.mark.parametrize("order", [*permutations(range(4))][::5])
def test_nodes_that_are_kept_stand_as_a_draft_of_them_would(order):
    """Several rows at once, a tree whose second node hangs on the first: also where a chain is left, or nothing."""
    found, right = rows_of(6), rows_of(6)
    slots = [4, 0, 5, 2]
    kept = [KEPT[place] for place in order]
    for slot, nodes in zip(slots, kept, strict=True):
        put(found, slot)
        above = [nodes.index(PARENTS[node]) if PARENTS[node] >= 0 else -1 for node in nodes]
        right.put_draft(slot, TOKENS[nodes], torch.tensor(above, dtype=torch.int64), CHANCES[nodes], SOURCE[nodes])
    put(found, 1)
    put(right, 1)
    keep_nodes(RowView(found, tuple(slots)), [np.array(nodes, np.int64) for nodes in kept])
    assert found.draft_len.tolist() == right.draft_len.tolist()
    assert found.branching == right.branching
    assert torch.equal(found.draft_parents, right.draft_parents)
    for slot, nodes in zip(slots, kept, strict=True):
        begin, count = int(found.committed_len[slot]), len(nodes)
        assert torch.equal(found.tokens[slot, begin : begin + count], TOKENS[nodes])
        assert torch.equal(found.draft_source[slot, :count], right.draft_source[slot, :count])
        assert found.draft_entropy[slot, :count].tolist() == nodes
        reach, wanted = (rows.draft_confidence[slot, :count].cumprod(0) for rows in (found, right))
        torch.testing.assert_close(reach, wanted, atol=1e-6, rtol=1e-4)


def test_no_rows_are_kept_as_they_are():
    keep_nodes(RowView(rows_of(2), ()), [])


def test_a_batch_is_looked_at_as_its_rows_are():
    """Rows of another length, one without a draft and a chain among them; each with what was learned of its own."""
    rows, draw = rows_of(4), np.random.default_rng(5)
    put(rows, 0)
    put(rows, 3)
    for token in (9, 10):
        rows.add_draft(1, token, 0.5, 0.1)
    view, trusts = RowView(rows, (3, 2, 1, 0)), [Trust() for _ in range(4)]
    for trust in trusts:
        for _ in range(3):
            trust.learn(Proposal.of(view, 0), [int(draw.choice([8, 9, 10])), 9, 11])
    whole = Proposals.of(view)
    chances = believed(trusts, whole)
    along, singles = whole.split(whole.along(chances)), [Proposal.of(view, slot) for slot in view.slots]
    assert [len(own) for own in along] == [5, 0, 2, 5]
    for own, single, each, trust in zip(along, singles, whole.each(), trusts, strict=True):
        for name in ("tokens", "parents", "said", "source", "depth"):
            np.testing.assert_array_equal(getattr(each, name), getattr(single, name))
        np.testing.assert_array_equal(own, single.along(trust.chances(single)))
    assert singles[0].depth.tolist() == [1, 2, 1, 3, 2]
    np.testing.assert_allclose(singles[0].said, CHANCES, rtol=1e-5, atol=1e-8)

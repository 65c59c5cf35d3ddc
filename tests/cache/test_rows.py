"""Drafts in rows: chains at rest, trees while they last."""

import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence


def rows_of(prompt=(5, 6, 7)):
    pool = PagePool(CacheShape(1, 1, 4), 8, 4, torch.float32)
    rows = Rows(2, 40, 8)
    rows.open(1, list(prompt), Sequence(pool, expected=20), 20)
    return rows


def put(rows, *nodes):
    tokens, parents = (torch.tensor(part) for part in zip(*nodes, strict=True))
    rows.put_draft(1, tokens, parents, torch.linspace(0.9, 0.5, len(nodes)))


def test_a_tree_lies_node_after_node_behind_the_text():
    rows = rows_of()
    put(rows, (8, -1), (9, -1), (10, 0), (11, 1))
    assert rows.tokens[1, :7].tolist() == [5, 6, 7, 8, 9, 10, 11]
    assert rows.tree(1).tolist() == [-1, -1, 0, 1]
    confidence = torch.linspace(0.9, 0.5, 4)
    reach = torch.stack([confidence[0], confidence[1], confidence[0] * confidence[2], confidence[1] * confidence[3]])
    torch.testing.assert_close(rows.draft_confidence[1, :4].cumprod(0), reach)
    assert rows.draft_entropy[1, :4].isnan().all()
    rows.draft_len[1] = 3
    assert rows.tree(1).tolist() == [-1, -1, 0]


def test_a_chain_is_no_tree():
    rows = rows_of()
    put(rows, (8, -1), (9, 0))
    assert rows.tree(1) is None
    assert rows.draft_confidence[1, :2].tolist() == torch.tensor([0.9, 0.5]).tolist()
    rows.drop_draft(1)
    rows.add_draft(1, 8, 0.5, 1.0)
    assert rows.tree(1) is None
    assert rows.draft_len.tolist() == [0, 1]


def test_a_node_without_a_chance_does_not_spoil_those_after_it():
    rows = rows_of()
    rows.put_draft(1, torch.tensor([8, 9, 8]), torch.tensor([-1, -1, 1]), torch.tensor([0.0, 0.5, 0.5]))
    torch.testing.assert_close(
        rows.draft_confidence[1, :3].cumprod(0), torch.tensor([0.0, 0.5, 0.25]), atol=1e-6, rtol=1e-5
    )


def test_after_a_tree_the_parents_are_a_chains_again():
    for end in (
        lambda rows: rows.commit(1, [8, 9], 4),
        lambda rows: rows.drop_draft(1),
        lambda rows: rows.close(1),
    ):
        rows = rows_of()
        put(rows, (8, -1), (9, -1), (10, 1))
        end(rows)
        assert rows.tree(1) is None
        assert rows.draft_parents.tolist() == [list(range(-1, 7))] * 2
        assert rows.draft_len.tolist() == [0, 0]


def test_branches_leave_the_spine_its_entropies():
    """Cut to some of its nodes it is still a tree of the same paths, and a chain again where none branches."""
    rows = rows_of()
    for token in (8, 9, 10):
        rows.add_draft(1, token, 0.5, token / 10)
    tokens, parents = torch.tensor([8, 9, 10, 11, 12]), torch.tensor([-1, 0, 1, -1, 3])
    rows.put_branches(1, 3, tokens, parents, torch.tensor([0.8, 0.5, 0.5, 0.2, 0.1]), 3)
    assert rows.tree(1).tolist() == parents.tolist()
    assert rows.draft_entropy[1, :3].tolist() == torch.tensor([0.8, 0.9, 1.0]).tolist()
    assert rows.draft_entropy[1, 3:5].isnan().all()
    reach = torch.tensor([0.8, 0.4, 0.2, 0.2, 0.02])
    torch.testing.assert_close(rows.draft_confidence[1, :5].cumprod(0), reach)
    rows.put_branches(1, 2, tokens[:2], parents[:2], torch.tensor([0.8, 0.5]))
    assert rows.tree(1) is None
    assert rows.draft_entropy[1, :2].tolist() == torch.tensor([0.8, 0.9]).tolist()

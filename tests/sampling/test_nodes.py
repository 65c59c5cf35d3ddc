"""Nodes: rows, positions and prefixes of plain, drafting and verifying nodes."""

from glimpse.sampling import Nodes


def prefixes(nodes):
    return [list(nodes.ancestors(node))[::-1] for node in range(len(nodes))]


def test_plain():
    nodes = Nodes.plain([3, 1], [10, 20], [2, 0])
    assert nodes.rows == (3, 1)
    assert nodes.position.tolist() == [10, 20]
    assert nodes.generated == (2, 0)
    assert prefixes(nodes) == [[], []]


def test_drafting():
    nodes = Nodes.drafting([0, 5, 2], [10, 20, 30], [1, 2, 3], [[7, 8], [], [9]])
    assert nodes.position.tolist() == [12, 20, 31]
    assert nodes.generated == (3, 2, 4)
    assert prefixes(nodes) == [[7, 8], [], [9]]


def test_verifying_chains_and_empty_rows():
    nodes = Nodes.verifying([4, 1, 2], [10, 20, 30], [0, 5, 9], [7, 8, 9], [-1, 0, -1], [0, 2, 2, 3])
    assert nodes.rows == (4, 4, 4, 1, 2, 2)
    assert nodes.row.tolist() == [4, 4, 4, 1, 2, 2]
    assert nodes.position.tolist() == [10, 11, 12, 20, 30, 31]
    assert nodes.generated == (0, 1, 2, 5, 9, 10)
    assert prefixes(nodes) == [[], [7], [7, 8], [], [], [9]]


def test_verifying_trees():
    #   root -> 5 -> 6 -> 8 ; root -> 7 ; 5 -> 9     (second row: one chain, to show that parents count within the row)
    nodes = Nodes.verifying([0, 1], [10, 50], [0, 0], [5, 7, 6, 9, 8, 1, 2], [-1, -1, 0, 0, 2, -1, 0], [0, 5, 7])
    assert prefixes(nodes) == [[], [5], [7], [5, 6], [5, 9], [5, 6, 8], [], [1], [1, 2]]
    assert nodes.position.tolist() == [10, 11, 11, 12, 12, 13, 50, 51, 52]

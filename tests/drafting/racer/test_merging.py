"""The draft tree: the breadth rule, what comes first, one trie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.drafting.drafter import Successors
from glimpse.drafting.packed import PackedSuccessors
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.merging import merge, unite
from glimpse.drafting.racer.successors import WIDTH, SuccessorTable
from glimpse.drafting.tree import EMPTY, Source, Tree, draft_of

IDS = 40


def random_table(seed, ids=IDS, holes=0.0):
    """Every token with WIDTH successors; with `holes`, of some the last ones are missing."""
    draw = np.random.default_rng(seed)
    successors = np.stack([draw.permutation(ids)[:WIDTH] for _ in range(ids)])
    chances = -np.sort(-draw.dirichlet(np.ones(WIDTH), ids), axis=1).astype(np.float32)
    chances[np.arange(WIDTH) >= draw.integers(0, WIDTH + 1, (ids, 1))] *= 0 if holes else 1
    table = SuccessorTable()
    table.write(np.arange(ids), successors, chances)
    return table


def tree(*nodes, source=Source.AUTOMATON):
    tokens, parents, reach = zip(*nodes, strict=True)
    kinds = (np.int64, np.int64, np.float32)
    arrays = [np.array(column, kind) for column, kind in zip((tokens, parents, reach), kinds, strict=True)]
    return Tree(*arrays, np.full(len(nodes), source, np.uint8))


def paths_of(merged):
    paths = []
    for token, parent in zip(merged.tokens.tolist(), merged.parents.tolist(), strict=True):
        assert parent < len(paths), "parents come before children"
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    assert len(set(paths)) == len(paths), "siblings differ"
    return paths


def ranks_of(table, last, merged):
    """Every node as the ranks of its path."""
    found = []
    for path in paths_of(merged):
        before = (last, *path)
        found.append(tuple(table.tokens[a].tolist().index(b) for a, b in zip(before, path, strict=False)))
    return found


def breadth_rule(nodes):
    """Section 3: child j of breadth b gets max(1, floor(b / 2^(j + [not the root]))), the root has 8."""
    layer, found = [((), 8)], []
    while len(found) < nodes:
        layer = [
            ((*path, j), max(1, wide // 2 ** (j + (path != ())))) for path, wide in layer for j in range(min(wide, 8))
        ]
        found += [path for path, _ in layer]
    return found[:nodes]


@pytest.mark.parametrize("budget", [1, 8, 16, 64, 96, 256])
def test_the_logits_tree_follows_the_breadth_rule(budget):
    table = random_table(3)
    merged = merge([], table, 5, budget, 99)
    assert ranks_of(table, 5, merged) == breadth_rule(budget)
    assert set(merged.source.tolist()) == {Source.LOGITS}


def test_64_nodes_are_this_wide_at_each_depth():
    depths = [len(path) for path in paths_of(merge([], random_table(3), 5, 64, 99))]
    assert [depths.count(depth) for depth in (1, 2, 3, 4)] == [8, 19, 24, 13]


def test_probabilities_multiply_along_a_path():
    table = random_table(4)
    merged = merge([], table, 7, 32, 99)
    for path, reach in zip(paths_of(merged), merged.reach, strict=True):
        chances = [table.chances[a][table.tokens[a].tolist().index(b)] for a, b in zip((7, *path), path, strict=False)]
        assert reach == pytest.approx(np.prod(chances), rel=1e-5)


def test_retrieved_nodes_come_first_and_logits_fill_up():
    table = random_table(5)
    known = table.tokens[9, :2].tolist()
    retrieved = tree((known[1], -1, 0.9), (77, 0, 0.5), (88, -1, 0.1))
    merged = merge([retrieved], table, 9, 32, 99)
    assert len(merged) == 32
    assert merged.tokens[:3].tolist() == [known[1], 77, 88]
    assert merged.source[:3].tolist() == [Source.AUTOMATON] * 3
    logits = set(paths_of(merge([], table, 9, 64, 99)))
    assert set(paths_of(merged)[3:]) <= logits
    shared_children = [path for path in paths_of(merged) if path[0] == known[1] and len(path) == 2]
    assert len(shared_children) == 1 + 4, "a shared node is gone through like one of the logits tree"


def test_a_shared_node_keeps_the_higher_probability():
    table = random_table(6)
    token, chance = int(table.tokens[3, 0]), float(table.chances[3, 0])
    assert merge([tree((token, -1, 0.01))], table, 3, 4, 9).reach[0] == pytest.approx(chance)
    assert merge([tree((token, -1, 1.0))], table, 3, 4, 9).reach[0] == 1


def test_two_retrieved_trees_become_one_trie():
    long = tree((1, -1, 0.9), (2, 0, 0.8), source=Source.SUFFIX)
    short = tree((1, -1, 0.5), (3, 0, 0.4), (4, -1, 0.3), (5, 2, 0.2))
    merged = merge([long, short], None, 0, 16, 9)
    assert paths_of(merged) == [(1,), (1, 2), (1, 3), (4,), (4, 5)]
    assert merged.source.tolist() == [3, 3, 1, 1, 1]
    cut = merge([long, short], None, 0, 3, 9)
    assert paths_of(cut) == [(1,), (1, 2), (1, 3)]


def test_a_child_whose_parent_found_no_room_is_left_out():
    full = tree((1, -1, 0.9), (2, -1, 0.8))
    other = tree((3, -1, 0.7), (4, 0, 0.6), (1, -1, 0.5), (9, 2, 0.4))
    assert paths_of(merge([full, other], None, 0, 2, 9)) == [(1,), (2,)]
    assert paths_of(merge([full, other], None, 0, 3, 9)) == [(1,), (2,), (3,)]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 99), st.integers(0, 96), st.integers(0, 6), st.booleans())
def test_a_merged_tree_is_sound(seed, budget, depth, holes):
    draw = np.random.default_rng(seed)
    table = random_table(seed, ids=12, holes=holes)
    retrieved = merge([], random_table(seed + 1, ids=12, holes=True), int(draw.integers(12)), 20, 4)
    merged = merge([retrieved], table, int(draw.integers(12)), budget, depth)
    paths = paths_of(merged)
    assert len(merged) <= budget
    assert paths[: min(budget, len(retrieved))] == paths_of(retrieved)[:budget]
    assert all(len(path) <= max(depth, 4) for path in paths)
    assert (draft_of([merged]).confidence <= 1 + 1e-6).all()
    assert (merged.reach > 0).all()


@pytest.mark.parametrize("last", [-1, IDS, 1 << 18])
def test_tokens_the_table_does_not_know(last):
    table = SuccessorTable()
    table.write(np.arange(3), np.ones((3, WIDTH), np.int64), np.ones((3, WIDTH), np.float32))
    assert len(merge([], table, last, 8, 8)) == len(merge([EMPTY], None, last, 8, 8)) == 0


def test_of_a_token_written_twice_the_later_successors_stay():
    table = SuccessorTable()
    chances = np.full((2, WIDTH), 0.1, np.float32)
    table.write(np.array([4, 4]), np.arange(2 * WIDTH).reshape(2, WIDTH), chances)
    assert table.tokens[4].tolist() == list(range(WIDTH, 2 * WIDTH))
    top = (1 << 18) - 1
    table.write(np.array([top]), np.full((1, WIDTH), 5), chances[:1])
    assert (len(table.tokens), table.tokens[4, 0], table.tokens[top, 0]) == (1 << 18, WIDTH, 5)
    table.write(np.zeros(0, np.int64), np.zeros((0, WIDTH), np.int64), np.zeros((0, WIDTH), np.float32))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.sampled_from([0, 1, 16, 64]), st.sampled_from([1, 3, 32]), st.booleans())
def test_both_sources_in_one_call_are_what_merging_them_gives(seed, budget, depth, holes):
    text = np.random.default_rng(seed).integers(0, 12, 60)
    automaton, table = Automaton(200, 6), random_table(seed, ids=12, holes=holes)
    automaton.read(text)
    merged = merge([automaton.propose(budget, depth)], table, int(text[-1]), budget, depth)
    united = unite(automaton, table, budget, depth)
    for name in ("tokens", "parents", "reach", "source"):
        assert getattr(united, name).tolist() == getattr(merged, name).tolist()


def test_an_entry_of_the_table_lies_in_one_cache_line():
    table = SuccessorTable()
    for ids in (1, 1000):
        table.write(np.full(1, ids), np.ones((1, WIDTH), np.int64), np.ones((1, WIDTH), np.float32))
        assert table.tokens.ctypes.data % 64 == 0


def test_a_node_without_any_probability_left_is_not_drafted():
    """1e-30 twice is 0 in float32; a confidence of 0 / 0 would follow."""
    table = SuccessorTable()
    table.write(np.arange(2), np.tile(np.arange(WIDTH), (2, 1)), np.full((2, WIDTH), 1e-30, np.float32))
    assert len(merge([], table, 0, 64, 8)) == WIDTH


def test_successors_that_are_not_distinct_do_no_harm():
    """The loop is compiled without bounds checks: what it is given must not lead it astray."""
    table = SuccessorTable()
    table.write(np.arange(4), np.array([[1, 1, 2, 2, 3, 3, 1, 2]] * 4), np.full((4, WIDTH), 0.1, np.float32))
    merged = merge([], table, 0, 96, 99)
    assert paths_of(merged)[:3] == [(1,), (2,), (3,)]
    assert len(merged) <= 96


def test_lines_are_copied_as_they_are_written():
    """What a device writes, ids and the bits of chances, and what tensors say of it; a table that grows meanwhile."""
    draw = np.random.default_rng(3)
    ids = draw.integers(0, 900, (6, WIDTH)).astype(np.int32)
    chances = draw.random((6, WIDTH)).astype(np.float32)
    packed = PackedSuccessors((np.array([7, 3, 700, 3, 0, 9]), np.concatenate([ids, chances.view(np.int32)], 1)), 0, 6)
    copied, written = SuccessorTable(), SuccessorTable()
    packed.enter(copied)
    Successors(packed.tokens, packed.likeliest, packed.chances).enter(written)
    assert packed.likeliest.tolist() == ids.tolist()
    assert packed.chances.numpy().tolist() == chances.tolist()
    np.testing.assert_array_equal(copied.tokens, written.tokens)
    np.testing.assert_array_equal(copied.chances, written.chances)
    assert copied.tokens[3].tolist() == ids[3].tolist(), "the later of two"

"""The automaton against brute force: n-grams, counts, failure links after every token, evictions, proposals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.drafting.racer.brute import Brute, by_use, strings

from glimpse.drafting.racer import ngrams
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.pooling import FLOOR
from glimpse.drafting.tree import Source, draft_of
from glimpse.errors import ArgumentError

TEXTS = st.integers(1, 6).flatmap(lambda top: st.lists(st.integers(0, top), max_size=60))
SIZES = st.integers(2, 4).flatmap(lambda length: st.tuples(st.integers(length * (length + 1), 60), st.just(length)))


def pair(text, capacity, length):
    automaton, brute = Automaton(capacity, length), Brute(capacity, length)
    for token in text:
        automaton.read([token])
        brute.read(token)
        yield automaton, brute


@settings(max_examples=150, deadline=None)
@given(TEXTS, SIZES)
@example([1, 2] * 20, (12, 3))
def test_after_every_token_the_trie_is_what_a_rebuild_gives(text, sizes):
    """Also after evictions: same n-grams, same counts, same order of use."""
    for automaton, brute in pair(text, *sizes):
        names = strings(automaton)
        assert [names[node] for node in by_use(automaton)] == brute.order
        counts = {names[node]: int(automaton._nodes[node, ngrams.COUNT]) for node in by_use(automaton)}
        assert counts == brute.counts
        assert len(automaton) == len(brute.counts) <= sizes[0]


@settings(max_examples=150, deadline=None)
@given(TEXTS, SIZES)
def test_after_every_token_each_failure_link_is_the_longest_proper_suffix_in_the_trie(text, sizes):
    for automaton, _ in pair(text, *sizes):
        names = strings(automaton)
        nodes = {gram: node for node, gram in names.items()}
        for node, gram in names.items():
            if node:
                longest = next(nodes[gram[cut:]] for cut in range(1, len(gram) + 1) if gram[cut:] in nodes)
                assert automaton._nodes[node, ngrams.FAIL] == longest


@settings(max_examples=100, deadline=None)
@given(TEXTS, SIZES)
def test_every_child_is_found_and_nothing_else(text, sizes):
    """The hash table, which closes its gaps when nodes are evicted."""
    automaton = Automaton(*sizes)
    automaton.read(text)
    names = strings(automaton)
    nodes = {gram: node for node, gram in names.items()}
    for node, gram in names.items():
        for token in range(8):
            found = ngrams.child_of(automaton._nodes, automaton._buckets, node, token)
            assert found == nodes.get((*gram, token), 0)


@settings(max_examples=100, deadline=None)
@given(TEXTS, SIZES)
def test_a_node_is_never_older_or_rarer_than_what_needs_it(text, sizes):
    automaton = Automaton(*sizes)
    automaton.read(text)
    age = {node: place for place, node in enumerate(by_use(automaton))} | {0: len(automaton)}
    for node in by_use(automaton):
        parent, fail = (int(automaton._nodes[node, column]) for column in (ngrams.PARENT, ngrams.FAIL))
        assert age[parent] > age[node] < age[fail]
        if parent:
            assert automaton._nodes[parent, ngrams.COUNT] >= automaton._nodes[node, ngrams.COUNT]


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 4), st.integers(1, 3))
def test_proposals_are_the_likeliest_continuations(text, depth, shortest):
    automaton, brute = Automaton(60, 4, shortest), Brute(60, 4)
    for token in text:
        automaton.read([token])
        brute.read(token)
    expected = brute.proposals(depth, shortest)
    for budget in (1, 5, 400):
        tree = automaton.propose(budget, depth)
        paths = paths_of(tree)
        assert len(paths) == len(set(paths)) == min(budget, len(expected))
        assert tree.reach.tolist() == pytest.approx([expected[path] for path in paths], rel=1e-5)
        best = sorted(expected.values(), reverse=True)[:budget]
        assert sorted(tree.reach.tolist(), reverse=True) == pytest.approx(best, rel=1e-5)


def paths_of(tree):
    paths = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        assert parent < len(paths), "parents come before children"
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


@pytest.mark.parametrize("shortest", [1, 2])
def test_a_repeat_is_proposed_beyond_the_end_of_the_n_gram(shortest):
    """The last 4 drafted tokens are the context of the next one."""
    automaton = Automaton(length=5, shortest=shortest)
    automaton.read([1, 2, 3, 4, 5, 6, 7, 1, 2])
    tree = automaton.propose(16, 10)
    assert tree.tokens.tolist()[:6] == [3, 4, 5, 6, 7, 1]
    assert tree.parents.tolist()[:6] == [-1, 0, 1, 2, 3, 4]
    assert set(tree.source.tolist()) == {Source.AUTOMATON}
    assert automaton.propose(16, 2).tokens.tolist() == [3, 4]
    assert len(automaton.propose(16, 0)) == len(automaton.propose(0, 4)) == 0


def test_the_longer_context_decides():
    """After 9 1 2 comes 5, after 1 2 alone more often 3."""
    automaton = Automaton()
    automaton.read([1, 2, 3, 0, 1, 2, 3, 0, 9, 1, 2, 5, 8, 9, 1, 2, 5, 7, 9, 1, 2])
    tree = automaton.propose(2, 1)
    assert tree.tokens.tolist() == [5, 3]
    assert tree.reach[0] > 0.8 > 0.2 > tree.reach[1] >= FLOOR


@pytest.mark.parametrize("text", [[], [5], [5, 6], list(range(30))])
def test_without_a_repeat_nothing_is_proposed(text):
    automaton = Automaton()
    automaton.read(text)
    assert len(automaton.propose(64, 10)) == 0


def test_one_token_over_and_over():
    automaton = Automaton()
    automaton.read([7] * 32_768)
    assert len(automaton) == 10
    tree = automaton.propose(64, 10)
    assert tree.tokens.tolist() == [7] * 10
    assert draft_of([tree]).confidence.min() > 0.99


def test_large_vocabularies():
    top = (1 << 18) - 1
    automaton = Automaton()
    automaton.read([top, top - 1, top - 2, 0, top, top - 1])
    assert automaton.propose(4, 2).tokens.tolist() == [top - 2, 0]


def test_memory_does_not_grow_beyond_the_nodes():
    automaton = Automaton(1000)
    automaton.read(np.random.default_rng(1).integers(0, 50, 20_000))
    assert len(automaton) == 1000
    assert len(automaton._nodes) == 1001


@pytest.mark.parametrize(("capacity", "length"), [(109, 10), (10_000, 1), (0, 3)])
def test_too_few_nodes_are_refused(capacity, length):
    with pytest.raises(ArgumentError, match=f"{capacity} nodes for n-grams of {length}"):
        Automaton(capacity, length)


@pytest.mark.parametrize("shortest", [0, 10, -1])
def test_contexts_that_cannot_be_are_refused(shortest):
    with pytest.raises(ArgumentError, match=f"contexts of {shortest} tokens"):
        Automaton(shortest=shortest)

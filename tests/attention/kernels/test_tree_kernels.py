"""Trees on the device against what the host says of them."""

from __future__ import annotations

import random

import pytest
import torch

from glimpse.acceptance.exact import walk
from glimpse.attention.plan import ancestors
from glimpse.attention.triton.mixed import Want, feed_mixed
from glimpse.attention.triton.rows import Verdict
from glimpse.attention.triton.trees import branch, commit_tree, compact
from glimpse.cache.compaction import keep_path
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.sequence import Sequence

PAGE, WIDTH = 4, 96
LENGTHS = (9, 5, 20, 12)


def tree(nodes, seed):
    """Tokens of 8 values, siblings different, and parents."""
    draw, made = random.Random(seed), []
    while len(made) < nodes:
        node = (draw.randrange(8) if len(made) < 8 else draw.randrange(100), draw.randrange(-1, len(made)))
        if node not in made:
            made.append(node)
    return [token for token, _ in made], [parent for _, parent in made]


class Batch:
    """Four rows, the second idle, with trees of these sizes; pages in scattered order."""

    def __init__(self, device, sizes, queries):
        def ints(values):
            return torch.tensor(values, dtype=torch.int32, device=device)

        self.queries, self.trees = queries, [tree(size, seed) for seed, size in enumerate(sizes)]
        self.count = sum(sizes) + 4 + 2
        # Where each row's tokens begin; the idle one has none.
        self.firsts = [0, 0, sizes[0] + 1, sizes[0] + sizes[2] + 2]
        self.paths = torch.full((4, queries + 1), -7, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(4, WIDTH, dtype=torch.int64, device=device)
        self.parents = torch.full((4, queries - 1), -1, dtype=torch.int32, device=device)
        for row, (tokens, parents) in enumerate(self.trees):
            self.tokens[row, LENGTHS[row] : LENGTHS[row] + len(tokens)] = torch.tensor(tokens)
            self.parents[row, : len(parents)] = torch.tensor(parents)
        self.length, self.active = ints(LENGTHS), ints([1, 0, 1, 1])
        self.drafted, self.limit = ints(sizes), ints([90, 90, 90, 13])
        self.table = (
            torch.randperm(4 * 24, generator=torch.Generator().manual_seed(0)).view(4, 24).to(device, torch.int32)
        )
        others = (ints([7] * 4) for _ in range(3))
        self.verdict = Verdict(ints([7] * 4), torch.full((4, queries), -5, device=device), *others)

    def feed(self, embedding):
        want = torch.full((4,), int(Want.ADD), dtype=torch.int32, device=embedding.device)
        return feed_mixed(
            self.tokens, self.length, self.drafted, self.limit, self.active, want, self.table, embedding, self.count,
            self.queries, PAGE,
        )  # fmt: skip

    def commit(self, made, picks, entropies):
        """`picks`, `entropies` [4, queries], of which each row's first ones are its own; returns the paths."""
        commit_tree(
            self.tokens, made.fed, made.ragged, self.parents, self.laid(picks), self.laid(entropies), self.length,
            self.drafted, self.active, self.limit, self.verdict, self.paths, self.queries,
        )  # fmt: skip
        return self.paths

    def laid(self, values):
        """Row after row, as the tokens of the step lie."""
        own = [values[row, : len(self.trees[row][0]) + 1] for row in (0, 2, 3)]
        flat = torch.cat(own)
        return torch.cat([flat, flat.new_zeros(self.count - len(flat))]).to(self.tokens.device)


CASES = [((1, 2, 0, 3), 4), ((8, 3, 8, 5), 9), ((63, 1, 40, 17), 64)]


@pytest.fixture
def embedding(device):
    return torch.zeros(128, 16, device=device)


@pytest.mark.parametrize(("sizes", "queries"), CASES)
def test_a_node_sees_its_ancestors_and_stands_at_its_depth(device, embedding, sizes, queries):
    batch = Batch(device, sizes, queries)
    made = batch.feed(embedding)
    fed, before = made.fed, made.fed.slots.clone()
    seen = branch(fed, made.ragged, batch.parents, queries)
    for row, (_, parents) in enumerate(batch.trees):
        if row == 1:
            continue
        own = [[True] + [False] * len(parents)]
        own += [[True, *line] for line in ancestors(torch.tensor(parents, dtype=torch.int64)).tolist()]
        for query, line in enumerate(own):
            bits = int(seen[row, query])
            assert [bool((bits >> place) & 1) for place in range(len(own))] == line
            assert int(fed.positions[batch.firsts[row] + query]) == LENGTHS[row] - 1 + sum(line) - 1
    assert torch.equal(fed.slots, before)


def picks_for(batch, right):
    """Picks that follow a random path of each tree, some of them off it."""
    draw, made = random.Random(right), torch.full((4, batch.queries), 101)
    for row, (tokens, parents) in enumerate(batch.trees):
        for query in range(len(tokens) + 1):
            children = [token for token, parent in zip(tokens, parents, strict=True) if parent == query - 1]
            made[row, query] = draw.choice(children) if children and draw.random() < 0.9 else 100 + query
    return made


@pytest.mark.parametrize(("sizes", "queries"), CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_path_that_agrees_is_committed(device, embedding, sizes, queries, seed):
    batch = Batch(device, sizes, queries)
    made, picks = batch.feed(embedding), picks_for(batch, seed)
    paths = batch.commit(made, picks, torch.zeros(4, queries))
    for row, (tokens, parents) in enumerate(batch.trees):
        own, alive = picks[row].tolist(), row != 1
        path = [0, *(node + 1 for node in walk(tokens, parents, own))]
        count = len(path) if alive else 0
        assert int(batch.verdict.counts[row]) == count
        assert int(batch.length[row]) == LENGTHS[row] + count
        assert int(batch.verdict.judged[row]) == (len(tokens) if alive else 0)
        if alive:
            assert paths[row, :count].tolist() == path
            assert batch.verdict.committed[row, :count].tolist() == [own[query] for query in path]
            assert batch.tokens[row, LENGTHS[row] : LENGTHS[row] + count].tolist() == [own[query] for query in path]
    assert batch.active.tolist() == [1, 0, 1, 0]
    assert batch.drafted.tolist() == [0] * 4
    assert batch.verdict.broken.tolist() == [0] * 4


def test_only_logits_on_the_path_have_to_be_finite(device, embedding):
    batch = Batch(device, (8, 3, 8, 5), 9)
    made, picks = batch.feed(embedding), picks_for(batch, 0)
    entropies = torch.full((4, 9), torch.nan)
    for row in (0, 3):
        tokens, parents = batch.trees[row]
        entropies[row, [0, *(node + 1 for node in walk(tokens, parents, picks[row].tolist()))]] = 1.0
    entropies[3, 0] = torch.inf
    batch.commit(made, picks, entropies)
    assert batch.verdict.broken.tolist() == [0, 0, 1, 1]
    assert [count > 0 for count in batch.verdict.counts.tolist()] == [True, False, False, False]
    assert batch.length.tolist()[1:] == list(LENGTHS[1:])


def test_keys_and_values_follow_the_path(device):
    """Across scattered pages; what lies before and after stays for everyone."""
    pool = PagePool(CacheShape(2, 3, 8), 24, PAGE, torch.float32, device)
    pool.keys.normal_()
    pool.values.normal_()
    paths = [[0, 2, 3, 9], [0, 1, 2], [0]]
    sequences = [Sequence(pool) for _ in paths]
    for end in (4, 8, 12, 16, 20):
        for sequence in sequences:
            sequence.reserve(end)
    table = torch.tensor([sequence.pages for sequence in sequences], dtype=torch.int32, device=device)
    begins, counts = [5, 8, 3], [len(path) for path in paths]
    held = torch.zeros(3, 10, dtype=torch.int32, device=device)
    for row, path in enumerate(paths):
        held[row, : len(path)] = torch.tensor(path)
    keys, values = pool.keys.clone(), pool.values.clone()
    length = torch.tensor([begin + count for begin, count in zip(begins, counts, strict=True)], dtype=torch.int32)
    compact(keys, values, table, held, torch.tensor(counts, dtype=torch.int32, device=device), length.to(device), PAGE)
    for sequence, begin, path in zip(sequences, begins, paths, strict=True):
        keep_path(sequence, begin, [query - 1 for query in path[1:]])
    assert torch.equal(keys, pool.keys)
    assert torch.equal(values, pool.values)

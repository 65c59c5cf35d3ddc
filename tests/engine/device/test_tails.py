"""Ends of prompts that are read together: what each would have been, read alone."""

from __future__ import annotations

import pytest
import torch

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device import prefill, reading, tails
from glimpse.engine.device.core import Core
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.prefill import Scores
from glimpse.engine.device.settings import RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.llm import LLM
from tiny import tiny_decoder

ROWS, PAGES, WIDTH, SIZE = 4, 3, 48, 16
STARTS, COUNTS = (16, 0, 21), (18, 5, 9)
"""Of rows 1 to 3: more tokens than queries that count, a whole prompt, and the end of one."""


def a_core() -> Core:
    """Four rows with a text each, their pages scattered."""
    decoder = tiny_decoder(num_hidden_layers=2)
    pool = PagePool(CacheShape(2, 2, 8), ROWS * PAGES, SIZE, decoder.dtype)
    pool.keys.zero_()
    pool.values.zero_()
    rows = DeviceRows.empty(ROWS, WIDTH, 3, PAGES, "cpu")
    recall = DeviceRecall.empty(2, ROWS, 6, 2, WIDTH, 12, "cpu", torch.float32)
    generator = torch.Generator().manual_seed(0)
    rows.tokens.copy_(torch.randint(97, (ROWS, WIDTH), generator=generator))
    rows.table.copy_(torch.randperm(ROWS * PAGES, generator=generator).view(ROWS, PAGES))
    return Core(decoder, pool, rows, recall, RoundSettings(RecallBudget(0.1, 12, 2, 6)), 97)


def extents(core: Core, row: int, stop: int) -> list[tuple[int, int]]:
    pages = core.rows.table[row, : -(-stop // SIZE)].tolist()
    return [(page * SIZE, min(SIZE, stop - place * SIZE)) for place, page in enumerate(pages)]


def alone(core: Core, row: int, start: int, stop: int, scores=None) -> torch.Tensor:
    tokens = core.rows.tokens[row, start:stop]
    return prefill.read(core.forward, core.pool, extents(core, row, stop), tokens, start, scores)


@pytest.fixture(scope="module")
def read():
    """(the core after reading together, hidden states, the pool after reading alone, hidden states, (q, keys) of the
    last queries by row and layer)."""
    core = a_core()
    for row, start in enumerate(STARTS, 1):
        if start:
            alone(core, row, 0, start)
    before = core.pool.keys.clone(), core.pool.values.clone()
    seen, weigh = [], prefill.weigh
    prefill.weigh = lambda q, keys, *rest: (seen.append((q, keys.clone())), weigh(q, keys, *rest))
    try:
        right = [
            alone(core, row, start, start + count, Scores(core.recall.fresh[:, row], core.recall.reference[:, row]))
            for row, (start, count) in enumerate(zip(STARTS, COUNTS, strict=True), 1)
        ]
    finally:
        prefill.weigh = weigh
    after = core.pool.keys.clone(), core.pool.values.clone(), core.recall.reference.clone()
    core.pool.keys.copy_(before[0])
    core.pool.values.copy_(before[1])
    core.recall.fresh.fill_(-7)
    core.recall.reference.fill_(3)
    core.rows.active[0] = 1
    reader = tails.TailReader(core, Graphs(torch.device("cpu"), core.quiet))
    hidden = reader.read(1, STARTS, COUNTS).clone()
    return core, hidden, after, torch.cat(right), [list(zip(*of, strict=True)) for of in seen]


def test_keys_values_and_hidden_states_are_those_of_rows_alone(read):
    core, hidden, (keys, values, _), right, _ = read
    torch.testing.assert_close(hidden, right, atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(core.pool.keys, keys, atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(core.pool.values, values, atol=2e-4, rtol=1e-3)


def test_importance_is_that_of_the_last_queries(read):
    """Each counted from its head's reference, as in later rounds; the row that is not read keeps what it had."""
    core, _, (_, _, reference), _, seen = read
    own = core.recall.reference
    # Where all queries count the reference is the prompt's own; elsewhere it is that of the first of the tail.
    torch.testing.assert_close(own[:, 2:], reference[:, 2:], atol=1e-3, rtol=1e-3)
    for row, (start, count) in enumerate(zip(STARTS, COUNTS, strict=True), 1):
        scored = start + count - min(count, prefill.QUERIES)
        for layer, (q, keys) in enumerate(seen[row - 1]):
            logits = torch.einsum("qgnd,gpd->gnqp", q.view(len(q), 2, 3, 8), keys) * 8**-0.5
            sums = (logits - own[layer, row].view(2, 3, 1, 1)).exp().sum((1, 2))
            found = core.recall.fresh[layer, row, :, :scored]
            torch.testing.assert_close(found, sums[:, :scored], atol=1e-3, rtol=5e-3)
    assert (core.recall.fresh[:, 0] == -7).all()
    assert (own[:, 0] == 3).all()


def test_first_sets_of_several_rows_are_those_of_each_alone(read):
    core = read[0]
    lengths = [start + count for start, count in zip(STARTS, COUNTS, strict=True)]
    scored = [length - min(count, prefill.QUERIES) for length, count in zip(lengths, COUNTS, strict=True)]
    core.begin(1, scored, [length - 1 for length in lengths])
    together = core.recall.slots.clone(), core.recall.count.clone(), core.recall.base.clone()
    core.recall.slots.fill_(-1)
    for row in (3, 1, 2):
        core.begin(row, [scored[row - 1]], [lengths[row - 1] - 1])
    assert torch.equal(core.recall.count, together[1])
    assert torch.equal(core.recall.base, together[2])
    assert core.recall.base.tolist() == [0, 33, 4, 29]
    for row, count in enumerate(together[1].tolist()):
        assert torch.equal(core.recall.slots[:, row, :, :count], together[0][:, row, :, :count])


@pytest.mark.parametrize(("tokens", "size"), [(1, 32), (32, 32), (33, 128), (513, 1024)])
def test_forwards_of_few_sizes(tokens, size):
    assert tails.bucket(tokens) == size


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("tails"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


@pytest.fixture
def forwards(monkeypatch):
    """What was read together: the first row, starts and counts of each forward."""
    read, seen = tails.TailReader.read, []

    def counted(self, first, starts, counts):
        seen.append((first, list(starts), list(counts)))
        return read(self, first, starts, counts)

    monkeypatch.setattr(tails.TailReader, "read", counted)
    return seen


@pytest.mark.parametrize(
    "options", [{"drafter": "sparse", "draft_tokens": 1, "budget": 0.1, "budget_floor": 38}, {"drafter": "racer"}]
)
def test_what_is_shared_is_not_read_and_the_rest_of_all_at_once(llm, monkeypatch, forwards, options):
    """A request with a kept prompt and a short one beside it."""
    (kept,) = prompts_of(llm, 60)
    prompts = [kept, kept[:18]]
    right, device = ids_of(llm.generate(prompts, greedy(2))), on_device(llm, pacer="fixed", **options)
    with device.pinned(kept):
        forwards.clear()
        monkeypatch.setattr(reading, "read", lambda *args: pytest.fail("read alone"))
        assert ids_of(device.generate(prompts, greedy(2))) == right
    assert forwards == [(0, [32, 0], [28, 18])]


def test_prompts_are_read_in_the_order_they_came(llm, forwards):
    """A long one between two short ones: each its own forward, and the rows in that order."""
    prompts = prompts_of(llm, 9, 40, 17)
    found = on_device(llm, prefix_reuse=False).generate(prompts, greedy(2))
    assert ids_of(found) == ids_of(llm.generate(prompts, greedy(2)))
    assert forwards == [(0, [0], [9]), (2, [0], [17])]

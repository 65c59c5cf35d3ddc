"""Prompts that are read with graphs made for more tokens: what each would have been, read as it comes."""

from __future__ import annotations

import pytest
import torch

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from engine.device.test_tails import a_core, extents
from glimpse.engine.device import prefill, prompt_graphs
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.prefill import Scores
from glimpse.engine.device.prompt_graphs import PromptGraphs
from glimpse.llm import LLM


def a_reader(core) -> PromptGraphs:
    return PromptGraphs(core, Graphs(torch.device("cpu"), core.quiet))


def scores_of(core, row: int) -> Scores:
    return Scores(core.recall.fresh[:, row], core.recall.reference[:, row])


@pytest.mark.parametrize("count", [16, 23, 48])
def test_a_prompt_is_what_it_is_read_as_it_comes(count):
    """Padded to 64, its pages scattered; free pages hold no numbers, and no other row's page is written to."""
    core, row = a_core(), 2
    tokens, places = core.rows.tokens[row, :count], extents(core, row, count)
    right = prefill.read(core.forward, core.pool, places, tokens, 0, scores_of(core, row))
    kept = core.pool.keys.clone(), core.pool.values.clone(), core.recall.fresh.clone(), core.recall.reference.clone()
    for part, held in zip((core.pool.keys, core.pool.values), kept, strict=False):
        part.copy_(torch.where(held == 0, torch.nan, 0.0))
    core.recall.fresh.fill_(-7)
    reader = a_reader(core)
    found = reader.read(64, places, tokens, scores_of(core, row))
    torch.testing.assert_close(found, right, atol=2e-4, rtol=1e-3)
    for part, held in zip((core.pool.keys, core.pool.values), kept, strict=False):
        torch.testing.assert_close(part.nan_to_num(0.0), held, atol=2e-4, rtol=1e-3)
        assert (part.isnan() == (held == 0)).all()
    torch.testing.assert_close(core.recall.fresh[:, row], kept[2][:, row], atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(core.recall.reference[:, row], kept[3][:, row], atol=2e-4, rtol=1e-3)
    assert (core.recall.fresh[:, row - 1] == -7).all()


def test_making_ready_writes_to_no_page():
    """Captures run the forward: on what was read last, whose pages may be another's by now."""
    core, row = a_core(), 1
    reader = a_reader(core)
    reader.read(64, extents(core, row, 20), core.rows.tokens[row, :20])
    before = core.pool.keys.clone()
    core.pool.keys.add_(1)
    for _, run in reader.ready():
        run()
    assert torch.equal(core.pool.keys, before + 1)


def test_sizes():
    """A graph that is there is used for what it covers; one is made where it has been wanted often."""
    core = a_core()
    reader = a_reader(core)
    assert [reader.size_for(count) for count in (15, 65)] == [None, None], "too few queries; more than a row holds"
    assert [reader.size_for(20) for _ in range(prompt_graphs.PATIENCE)] == [None] * prompt_graphs.PATIENCE
    assert reader.size_for(20) == 64
    reader.read(64, extents(core, 1, 20), core.rows.tokens[1, :20])
    assert [reader.size_for(count) for count in (16, 48)] == [64, 64]


def test_none_where_reading_is_the_devices_work(monkeypatch):
    """A forward of 64 tokens that takes longer than its launches."""
    monkeypatch.setattr(prompt_graphs, "LAUNCHED", 1.0)
    reader = a_reader(a_core())
    assert reader.size_for(20) is None
    assert list(reader.ready()) == []


def test_texts_are_plain_decodings(tmp_path, monkeypatch):
    """Of one that is read with the ends of others, and of one in two parts, the first with a graph that was there."""
    monkeypatch.setattr(prompt_graphs, "LEAST", 16)
    monkeypatch.setattr("glimpse.engine.device.reading.CHUNK", 32)
    monkeypatch.setattr(prompt_graphs, "CHUNK", 32)
    for module in ("attention", "recalled"):
        monkeypatch.setattr(f"glimpse.attention.triton.{module}.processors", lambda device: 4)
    llm = LLM(tiny_folder(tmp_path, layers=2), device="cpu", drafter="none", pacer="fixed", max_batch_size=2)
    device = on_device(llm, drafter="sparse", pacer="fixed", draft_tokens=2, prefix_reuse=False)
    device.warm_up()
    read, sizes = PromptGraphs.read, []
    monkeypatch.setattr(PromptGraphs, "read", lambda own, size, *rest: (sizes.append(size), read(own, size, *rest))[1])
    prompts = prompts_of(llm, 8, 33)
    assert ids_of(device.generate(prompts, greedy(4))) == ids_of(llm.generate(prompts, greedy(4)))
    assert sizes == [24]

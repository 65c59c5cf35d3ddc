"""The bench's cell of device rounds under Triton's interpreter: the engine's text, outcomes, near ties."""

from __future__ import annotations

import pytest
import torch

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import one_round, params_of
from glimpse.bench.decode.device import DeviceCell
from glimpse.bench.decode.ties import judge
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("cell") / "tiny", num_hidden_layers=1)
    return LLM(folder, drafter="none", pacer="fixed")


@pytest.fixture(scope="module")
def prompts(llm):
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    return [ids[:40], ids[10:50]]


@pytest.fixture(scope="module")
def cell(llm, prompts):
    return DeviceCell(llm.loaded.checkpoint, prompts, 38, 20, 2)


def test_a_cell_writes_what_the_engine_writes(llm, prompts, cell):
    right = [llm.generate([prompt], params_of(0.7, 2 + row, 6))[0].token_ids for row, prompt in enumerate(prompts)]
    with torch.inference_mode():
        cell.resample(0.7, 1)
        cell.rewind(0)
        cell.plain()
        cell.plain()
        assert cell.written() == [list(own[:2]) for own in right]
        cell.rewind(2)
        one_round(cell, 2)
        one_round(cell, 2)
        drafted, rounds = cell.written(), cell.noted()
    assert [own[:6] for own in drafted] == [list(own[: len(mine)]) for own, mine in zip(right, drafted, strict=True)]
    assert [found.drafted for found in rounds] == [[2, 2], [2, 2]]
    assert all(len(sure) == 2 and all(0 < value <= 1.001 for value in sure) for sure in rounds[0].confidence)
    assert depths(rounds, 2).tokens == sum(map(len, drafted))


def test_float32_verify_rows_pick_what_plain_steps_pick(llm, cell):
    with torch.inference_mode():
        cell.resample(0.7, 0)
        found = judge(cell.batch, llm.tokenizer.vocab_size, 1, 0.7, blocks=1)
    assert (found["positions"], found["differ"], found["margins"]) == (4, 0, [])
    assert found["logits_differ_most"] < 1e-3


def test_what_a_device_cell_cannot_do_is_said(llm, prompts, cell):
    with pytest.raises(ArgumentError, match="'lookup' does not run on a GPU yet"):
        DeviceCell(llm.loaded.checkpoint, prompts, 38, 20, 2, "lookup")
    with pytest.raises(ArgumentError, match="made for at most 2"):
        cell.rewind(3)

"""The bench's cell of device rounds under Triton's interpreter: the engine's text, outcomes."""

from __future__ import annotations

import pytest
import torch

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import one_round, params_of
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("cell") / "tiny", num_hidden_layers=1)
    return LLM(folder, drafter="none", pacer="fixed")


@pytest.fixture(scope="module")
def prompt(llm):
    return llm.tokenizer.encode("hello world, this is a test of the thing.")[:20]


@pytest.fixture(scope="module")
def cell(llm, prompt):
    return DeviceCell(llm.loaded.checkpoint, [prompt], 14, 8, 1)


def test_a_cell_writes_what_the_engine_writes(llm, prompt, cell):
    right = list(llm.generate([prompt], params_of(0.7, 1, 3))[0].token_ids)
    with torch.inference_mode():
        cell.resample(0.7, 1)
        cell.rewind(1)
        one_round(cell, 1)
        (written,), (found,) = cell.written(), cell.noted()
    assert written == right[: len(written)]
    assert (found.drafted, found.committed) == ([1], [len(written)])
    assert 0 < found.confidence[0][0] <= 1.001
    assert depths([found], 1).accepted == len(written) - 1


def test_what_a_device_cell_cannot_do_is_said(llm, prompt, cell):
    with pytest.raises(ArgumentError, match="'lookup' does not run on a GPU yet"):
        DeviceCell(llm.loaded.checkpoint, [prompt], 14, 8, 1, "lookup")
    with pytest.raises(ArgumentError, match="made for at most 1"):
        cell.rewind(2)

"""The bench's cell on a GPU: captured steps, the same text in every arm, near ties, host time."""

from __future__ import annotations

import pytest
import torch

from glimpse.bench.decode.effort import Effort
from glimpse.bench.decode.measure import Measuring
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.floors import Machine
from tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("cell") / "tiny", hidden_size=192, intermediate_size=128,
                                 head_dim=32, max_position_embeddings=512)  # fmt: skip


def test_a_cell_of_device_rounds(folder):
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    models = Models(torch.float32, torch.device("cuda"))
    effort = Effort(pairs=2, steps=8, rounds=3, repeats=2)
    measuring = Measuring(models, Text(), Machine(4e12, 8e14), effort, budget=40)
    found = measuring.cell(parse_cell(f"{folder}:100x2:2+3", "demo", [4]), lambda line: None)
    torch.backends.cuda.matmul.allow_tf32 = before
    assert found["how"] == "device rounds in step, CUDA graphs"
    for law in found["laws"].values():
        assert [arm["parted"] for arm in law["drafted"]] == [[0, 0], [0, 0]]
        assert 0 <= law["plain"]["host_share"] < 1
        assert law["ties"]["differ"] <= 1

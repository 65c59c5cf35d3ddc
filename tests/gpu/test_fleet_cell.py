"""Filled batches on a GPU: captured steps, the same text in every arm, host time, a recorded timeline."""

from __future__ import annotations

import pytest
import torch

from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.fleet.measure import FleetMeasuring
from glimpse.bench.fleet.shape import parse_fleet
from glimpse.bench.floors import Machine
from glimpse.bench.timeline.measure import TimelineMeasuring
from glimpse.bench.timeline.record import Traffic
from glimpse.engine.options import EngineOptions
from tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("fleet") / "tiny", hidden_size=192, intermediate_size=128,
                                 head_dim=32, max_position_embeddings=512)  # fmt: skip


@pytest.fixture
def models():
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    yield Models(torch.float32, torch.device("cuda"))
    torch.backends.cuda.matmul.allow_tf32 = before


def test_a_filled_batch(folder, models):
    effort = FleetEffort(turns=2, rows=2, warm=4, tokens=12, room=60)
    measuring = FleetMeasuring(models, Text(), Machine(4e12, 8e14), effort, budget=40)
    found = measuring.cell(parse_fleet(f"{folder}:100x3:2", "demo", [4]), lambda line: None)
    measuring.close()
    assert found["how"] == "device engine, CUDA graphs"
    assert [arm["arm"] for arm in found["arms"]][:5] == ["none", "synchronised", "feedback", "fixed", "fleet"]
    for arm in found["arms"]:
        assert sum(arm["parted"]) <= 1
        assert 0 <= arm["host_share"] < 1
        assert min(arm["tokens"]) >= 36


def test_a_timeline(folder, models):
    options = EngineOptions("sparse", "feedback", budget=0.001, budget_floor=40, prefix_reuse=False)
    measuring = TimelineMeasuring(models, Text(), Machine(4e12, 8e14), options, Traffic(60, 2, 4, 16))
    found = measuring.cell(parse_fleet(f"{folder}:100x2", "demo", [4]), lambda line: None)
    assert {"p", "d", "v"} <= set("".join(lane["steps"] for lane in found["lanes"]))

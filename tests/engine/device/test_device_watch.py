"""Watching the device engine: parts of prompts, draft steps, verifications of rows at their own pace and in step."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, on_device, prompts_of, tiny_folder
from glimpse.bench.fleet import cell as fleet_cell
from glimpse.bench.fleet.arms import NONE, Arm
from glimpse.bench.fleet.cell import FleetCell
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.timeline.lanes import lanes_of
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.watch import Did, attach
from glimpse.llm import LLM

SPARSE = {"drafter": "sparse", "budget": 0.1, "budget_floor": 38, "draft_tokens": 2}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("watch"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.mark.parametrize("pacer", ["feedback", "fixed"])
def test_steps_are_seen(llm, pacer):
    device, seen = on_device(llm, **SPARSE, pacer=pacer), []
    attach(device._engine, seen.append)
    outputs = device.generate(prompts_of(llm, 20, 33), [greedy(5), greedy(3)])
    attach(device._engine, None)
    steps = [step for step in seen if step.end is not None]
    # The last token of a prompt is read by the first decoding step.
    assert sum(count for step in steps for count in step.committed) == 8
    assert sum(count for step in steps for count in step.drafted) == sum(out.speculation.drafted for out in outputs)
    first, other = lanes_of(seen)
    assert first.steps[0] == other.steps[0] == "p"
    assert {"d", "v"} <= set(first.steps)
    assert all(Did(what) is not Did.PREFILL for step in steps for what in step.did)
    assert all(step.end.since(step.begin) > 0 for step in steps)


def test_a_filled_batch_on_the_device(llm, monkeypatch):
    def build(loaded, options):
        return device_engine(make_parts(loaded, options), options)

    monkeypatch.setattr(fleet_cell, "build_engine", build)
    cell = FleetCell(llm.loaded.checkpoint, prompts_of(llm, 40), 38, 8)
    cell.read()
    effort = FleetEffort(warm=1, tokens=2)
    plain, right = cell.run(Arm(NONE), 1, 0, 0.0, effort)
    window, texts = cell.run(Arm("fixed", 1), 1, 0, 0.0, effort)
    assert all(own[: len(text)] == text[: len(own)] for own, text in zip(right, texts, strict=True))
    assert window.tokens >= plain.tokens == plain.steps == 2
    assert sum(count for wrote in window.rounds for _, _, count in wrote) == window.tokens
    assert min(plain.busy, window.busy) > 0
    cell.close()
    assert cell._loaded.pool.free_pages == cell._loaded.pool.pages

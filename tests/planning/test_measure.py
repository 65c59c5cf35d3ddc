"""What is measured, in which order and for how long, with an engine and a clock that are made up."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.engine.loaded import load
from glimpse.model import load_checkpoint
from glimpse.pacing.costs import FEATURES, StepCosts, StepLoad
from glimpse.planning import effort, measure
from glimpse.planning.effort import Effort, effort_for, sizes_for

TRUE = np.array([0.5e-3, 1e-6, 2e-6, 5e-9, 7e-9, 1e-11, 7e-6, 3e-4, 0])
"""A made-up GPU's seconds per unit of each of `FEATURES`."""
EFFORT = Effort(seconds=1e9, contexts=(100, 400), batches=(1, 4), drafts=(0, 3), passes=1)


class Clock:
    """Stands still but for what engines take."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class LateEngine:
    """Runs whole rounds, and says what a step committed only with the next one, as an engine of a GPU does."""

    def __init__(self, clock, options):
        self.clock, self.options, self.made = clock, options, []
        self.parts = SimpleNamespace(costs=StepCosts(1_000_000, 100))
        self.requests, self.flying, self.rounds = [], False, []

    @property
    def busy(self):
        return bool(self.requests)

    def add(self, request):
        self.requests.append(request)

    def cancel(self, request):
        self.requests.remove(request)
        self.flying = False

    def step(self):
        rows, length = len(self.requests), len(self.requests[0].prompt)
        drafts = self.options.draft_tokens
        draft = StepLoad(draft_tokens=rows, draft_kv=rows * 40)
        tokens = drafts + 1
        full = StepLoad(rows * tokens, 0, rows * length, 0, rows * tokens * length, rows if drafts else 0)
        for one in [draft] * drafts + [full]:
            seconds = float(one.features() @ TRUE)
            self.clock.now += seconds
            self.parts.costs.observe(one, seconds)
        self.rounds.append((drafts, length, rows))
        before, self.flying = self.flying, True
        return ["made"] if before else []


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """(loaded, the engines that were built)."""
    loaded = load(load_checkpoint(write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=512)), None, 8)
    clock, engines = Clock(), []

    def build(_, options):
        engines.append(LateEngine(clock, options))
        return engines[-1]

    monkeypatch.setattr(measure, "build_engine", build)
    monkeypatch.setattr(
        measure, "make_requests", lambda loaded, engine, prompt, params: [SimpleNamespace(prompt=prompt)]
    )
    monkeypatch.setattr(measure.time, "perf_counter", clock)
    monkeypatch.setattr(measure.roofs, "bandwidth", lambda device: 4e12)
    monkeypatch.setattr(measure.roofs, "rate", lambda device, dtype: 8e14)
    return loaded, engines


def test_an_engine_that_answers_one_step_late_gives_its_surface(bench):
    loaded, engines = bench
    found = measure.calibrate(loaded, EFFORT)
    assert {point.load[0] for point in found.points} == {0, 1, 4, 16}
    assert {point.load[1] for point in found.points} == {0, 1, 4}
    assert max(abs(point.error) for point in found.points) < 0.03
    plain = StepLoad(4, 0, 1600, 0, 1600).features()
    assert float(plain @ np.array(found.coefficients)) == pytest.approx(float(plain @ TRUE), rel=0.03)
    assert all(not engine.requests for engine in engines)
    assert loaded.pool.free_pages == loaded.pool.pages


def test_an_engine_serves_all_cells_of_a_draft_length(bench):
    loaded, engines = bench
    measure.calibrate(loaded, EFFORT)
    assert [engine.options.draft_tokens for engine in engines] == [0, 3]
    cells = [(context, batch) for context in (100, 400) for batch in (1, 4)]
    for engine, wanted in zip(engines, (EFFORT.plain_steps, EFFORT.rounds), strict=True):
        ran = [cell for _, *cell in dict.fromkeys(engine.rounds)]
        assert [tuple(cell) for cell in ran] == cells
        # One late, and the first commit does not count.
        assert len(engine.rounds) == len(cells) * (wanted + 2)


def test_the_second_pass_goes_backwards_and_ends_with_the_time(bench):
    loaded, engines = bench
    measure.calibrate(loaded, Effort(1e9, contexts=(100, 400), drafts=(0, 3)))
    assert [engine.options.draft_tokens for engine in engines] == [0, 3, 3, 0]
    assert [length for _, length, _ in dict.fromkeys(engines[2].rounds)] == [400, 100]
    engines.clear()
    measure.calibrate(loaded, Effort(1e-9, contexts=(100, 400), drafts=(0, 3)))
    ran = [engine for engine in engines if engine.rounds]
    assert [engine.options.draft_tokens for engine in ran] == [0, 3]
    assert all(len(engine.rounds) == 2 * 3 for engine in ran)


def test_batches_that_do_not_fit_are_left_out(bench):
    loaded, engines = bench
    measure.calibrate(loaded, Effort(1e9, contexts=(100,), batches=(1, 8, 64), drafts=(0,), passes=1))
    assert {rows for _, _, rows in engines[0].rounds} == {1, 8}


def test_a_gpu_is_measured_with_batches():
    assert effort_for("cpu", 10.0, 8) == Effort(10.0)
    found = effort_for("cuda:0", 30.0, 64)
    assert (found.seconds, found.batches, found.passes) == (30.0, (1, 8, 64), 1)
    assert effort_for("cuda:0", 30.0, 20).batches == (1, 8, 20)
    assert effort_for("cuda:0", 30.0, 1).batches == (1,)


def test_what_is_opened_on_a_gpu_is_what_is_measured(monkeypatch):
    """As many rows as fit, and no longer than the longest context and what is written behind it."""
    asked = []

    def demand(spec, dtype, device, context, slots, *, loaded):
        asked.append((spec.layers, dtype, context))
        return SimpleNamespace(most_slots=11)

    monkeypatch.setattr(effort, "place", lambda name: SimpleNamespace(device=torch.device("cuda", 0)))
    monkeypatch.setattr(effort, "demand_of", demand)
    assert sizes_for("demo", "auto", "auto", None, None) == {"max_context": 8192, "max_batch_size": 11}
    assert asked == [(30, torch.bfloat16, 8192)]
    assert sizes_for("demo", "auto", "float16", 1000, 4) == {"max_context": 1000, "max_batch_size": 4}


def test_on_a_cpu_sizes_are_left_to_the_model():
    assert sizes_for("demo", "cpu", "auto", None, None) == {}
    assert sizes_for("anything", "cpu", "auto", 300, None) == {"max_context": 300}


def test_features_are_what_the_made_up_gpu_has():
    assert len(TRUE) == len(FEATURES)

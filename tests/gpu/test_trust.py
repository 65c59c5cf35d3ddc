"""Slow-Fast Inference as CUDA graphs: the CPU's text in float32, rows in phases of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glimpse.cache.recall import RecallBudget
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.engine import Engine
from gpu.test_device_engine import exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]
NARROW = RecallBudget(share=0.01, floor=16, sinks=2, recent=4)


def trusting(llm, make):
    """Fast steps read 16 positions, and there are five of them at most."""
    other = llm.variant(drafter="slowfast", pacer=None, lossy="slowfast", draft_tokens=5)
    parts = replace(make_parts(llm.loaded, other.options), budget=NARROW)
    parts.drafter._budget = NARROW
    other._engine = make(parts, other.options)
    return other


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_the_cpus(llms, pages, temperature):
    """Six requests of different lengths over four rows; sets may differ in positions that weigh the same."""
    cpu, gpu = llms
    prompts = prompts_of(cpu, 40, 47, 100, 17, 80, 33)
    params = params_of(temperature, 24, 5, 40, 12, 24, 9)
    device = trusting(gpu, device_engine)
    found, right = device.generate(prompts, params), trusting(cpu, Engine).generate(prompts, params)
    assert ids_of(found) == ids_of(right)
    assert [own.speculation.trusted for own in found] == [own.speculation.trusted for own in right]
    assert sum(own.speculation.trusted for own in found) > 50
    assert all(own.speculation.graph_steps for own in found)
    assert not any(own.speculation.eager_steps for own in found)
    # Rows in whatever phase: one graph for each number of rows.
    assert 0 < len(device._engine._launcher.graphs) <= 3


def test_the_usual_engine_runs_it_as_graphs(llms, pages):
    """Through the option; the least that its window reads is all of so short a text, which is then plain decoding's."""
    cpu, gpu = llms
    fast = gpu.variant(drafter="slowfast", pacer=None, lossy="slowfast")
    found = fast.generate(prompts_of(cpu, 40, 80), params_of(0.8, 24, 24))
    assert ids_of(found) == ids_of(cpu.generate(prompts_of(cpu, 40, 80), params_of(0.8, 24, 24)))
    assert all(own.speculation.graph_steps and not own.speculation.eager_steps for own in found)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_siblings_text_is_plain_decodings(llms, pages, temperature):
    cpu, gpu = llms
    prompts = prompts_of(cpu, 40, 47, 100, 17, 80, 33)
    params = params_of(temperature, 24, 5, 40, 12, 24, 9)
    other = gpu.variant(drafter="slowfast", pacer=None, draft_tokens=5)
    parts = replace(make_parts(gpu.loaded, other.options), budget=NARROW)
    parts.drafter._budget = NARROW
    other._engine = device_engine(parts, other.options)
    found = other.generate(prompts, params)
    assert ids_of(found) == ids_of(cpu.generate(prompts, params))
    assert sum(own.speculation.accepted for own in found) > 0
    assert all(own.speculation.graph_steps and not own.speculation.eager_steps for own in found)

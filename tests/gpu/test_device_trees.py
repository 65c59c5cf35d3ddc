"""Draft trees as CUDA graphs: float32 texts equal the CPU's, whatever the trees are and whoever joins or leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.doubles import RandomPacer
from tests.trees import Spine, Trees

from glimpse.cache.rows import Rows
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from gpu.test_device_engine import exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]

TOKENS = (24, 5, 40, 12, 24, 9)
ENGINES = {
    "racer": {"drafter": "racer", "pacer": "fixed", "draft_tokens": 40},
    "racer-marginal": {"drafter": "racer", "pacer": "marginal"},
    "suffix": {"drafter": "suffix", "pacer": "marginal"},
    "racer+suffix": {"drafter": "racer+suffix", "pacer": "fixed", "draft_tokens": 8},
}


def jobs(llm, temperature):
    """Six requests of different lengths."""
    return prompts_of(llm, 40, 47, 100, 17, 80, 33), params_of(temperature, *TOKENS)


def with_trees(llm, drafting, pacing):
    """The GPU's engine with parts of the tests' own."""
    device = llm.variant(drafter="suffix", pacer="marginal")
    parts = make_parts(llm.loaded, device.options)
    rows = Rows(parts.rows.capacity, parts.rows.width + 64, 64)
    device._engine = device_engine(replace(parts, rows=rows, drafter=drafting, pacer=pacing), device.options)
    return device


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", ENGINES)
def test_the_text_is_the_cpus(llms, pages, name, temperature):
    """Over four rows: rows join, leave and move. The second run meets graphs that were captured for the first."""
    cpu, gpu = llms
    prompts, params = jobs(cpu, temperature)
    device, right = gpu.variant(**ENGINES[name]), ids_of(cpu.generate(prompts, params))
    for _ in range(2):
        found = device.generate(prompts, params)
        assert ids_of(found) == right
    assert not any(output.speculation.eager_steps for output in found)
    assert all(output.speculation.waiting_steps == output.speculation.graph_steps > 0 for output in found)
    if ENGINES[name]["pacer"] == "fixed":
        assert sum(output.speculation.drafted for output in found) > 0


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(("shape", "nodes"), [("random", 20), ("wide", 63), ("deep", 64)])
def test_any_trees_cut_anywhere(llms, pages, temperature, shape, nodes):
    """Right and wrong branches, as many as a mask has bits."""
    cpu, gpu = llms
    prompts, params = jobs(cpu, temperature)
    right = ids_of(cpu.generate(prompts, params))
    drafter = Trees(list(zip(prompts, right, strict=True)), shape, nodes, 0.9)
    found = with_trees(gpu, drafter, RandomPacer(64)).generate(prompts, params)
    assert ids_of(found) == right
    assert sum(output.speculation.accepted for output in found) > 0
    assert not drafter.admitted


def test_paths_of_many_nodes_move(llms, pages):
    """Seven of eight tokens of a row come from nodes that had to move."""
    cpu, gpu = llms
    prompts, params = jobs(cpu, 0.8)
    right = ids_of(cpu.generate(prompts, params))
    drafter = Spine(list(zip(prompts, right, strict=True)), width=6)
    pacer = RandomPacer(7)
    found = with_trees(gpu, drafter, pacer).generate(prompts, params)
    assert ids_of(found) == right
    assert all(len(outcome.path) == outcome.accepted for outcome in drafter.outcomes if outcome.path)


def test_drafters_hear_of_prompts_and_of_every_node(llms, pages):
    """The GPU's successors of a prompt are the CPU's: their likeliest token is what plain decoding writes next."""
    cpu, gpu = llms
    (prompt,) = prompts_of(cpu, 40)
    device = gpu.variant(**ENGINES["racer"], prefix_reuse=False)
    drafter, told = device._engine.parts.drafter, []
    original = drafter.recycle
    drafter.recycle = lambda slot, successors: (told.append(successors), original(slot, successors))
    (found,) = device.generate([prompt], params_of(0.0, 8))
    assert len(told[0].tokens) == 40
    assert int(told[0].likeliest[-1, 0]) == found.token_ids[0]
    assert all((facts.chances.diff(dim=1) <= 1e-6).all() for facts in told)
    assert sum(len(facts.tokens) for facts in told[1:]) == found.speculation.drafted + found.speculation.graph_steps

"""Mixed steps as CUDA graphs: rows at their own pace write the CPU's text, and graphs are few."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.device.pacers import Whim
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from gpu.test_device_engine import SPARSE, exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_rows_at_whim_write_the_cpus_text(llms, pages, temperature):
    """Six requests of different lengths over four rows."""
    cpu, gpu = llms
    prompts = prompts_of(cpu, 40, 47, 100, 17, 80, 33)
    params = params_of(temperature, 24, 5, 40, 12, 24, 9)
    device = gpu.variant(**SPARSE, pacer="entropy")
    parts = replace(make_parts(gpu.loaded, device.options), pacer=Whim(7))
    device._engine = device_engine(parts, device.options)
    found = device.generate(prompts, params)
    assert ids_of(found) == ids_of(cpu.generate(prompts, params))
    assert not any(output.speculation.eager_steps for output in found)
    graphs = device._engine._launcher.graphs
    mixed = [key for key in graphs._held if key[0] == "mixed"]
    # Four rows feed at most 16 tokens: five sizes, and which kinds of rows there are.
    assert 0 < len(mixed) <= 24

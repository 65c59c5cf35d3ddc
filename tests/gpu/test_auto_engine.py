"""`auto` as CUDA graphs: one source on the host beside the batch's own drafts, with the CPU's texts."""

from __future__ import annotations

import pytest

from gpu.test_device_engine import exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]

TOKENS = (24, 5, 40, 12, 24, 9)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(("store", "source"), [(None, "racer"), ("mine", "racer+suffix")])
def test_the_text_is_the_cpus_and_every_request_is_told_who_drafts(llms, pages, store, source, temperature):
    """Over four rows: rows join, leave and move. The second run goes by what the first has shown of texts."""
    cpu, gpu = llms
    prompts, params = prompts_of(cpu, 40, 47, 100, 17, 80, 33), params_of(temperature, *TOKENS)
    device, right = gpu.variant(drafter="auto", pacer=None, suffix_store=store), ids_of(cpu.generate(prompts, params))
    for _ in range(2):
        found = device.generate(prompts, params)
        assert ids_of(found) == right
    for output in found:
        assert not output.speculation.eager_steps
        assert output.speculation.choices
        assert {tuple(choice.expected) for choice in output.speculation.choices} == {("none", source, "sparse")}

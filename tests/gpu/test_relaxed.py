"""Lossy rules as CUDA graphs: plain text where strict, and drafts that only they let pass where not."""

from __future__ import annotations

import pytest

from gpu.test_device_engine import exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]


def written(llms, lossy):
    """By graphs alone, with drafts of the model's own."""
    cpu, gpu = llms
    prompts, params = prompts_of(cpu, 40, 47, 100, 17), params_of(0.8, 24, 5, 40, 12)
    outputs = gpu.variant(drafter="sparse", pacer="fixed", draft_tokens=4, lossy=lossy).generate(prompts, params)
    assert all(own.speculation.graph_steps for own in outputs)
    assert not any(own.speculation.eager_steps for own in outputs)
    return outputs, ids_of(cpu.generate(prompts, params))


@pytest.mark.parametrize("lossy", ["typical:inf", "top-k:0"])
def test_a_strict_rule_writes_the_cpus_plain_text(llms, pages, lossy):
    outputs, plain = written(llms, lossy)
    assert ids_of(outputs) == plain
    assert not any(own.speculation.relaxed for own in outputs)


def test_what_a_rule_lets_pass_is_counted(llms, pages):
    """Every draft that the law can write passes here."""
    outputs, _ = written(llms, "top-k:1000000")
    made = [own.speculation for own in outputs]
    assert all(0 <= own.relaxed <= own.accepted <= own.drafted for own in made)
    assert sum(own.accepted for own in made) > 0

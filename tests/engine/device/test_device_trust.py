"""Slow-Fast Inference as device steps: the eager engine's text, and as many steps of either kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from engine.device.engines import ids_of, prompts_of, tiny_folder
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.engine import Engine
from glimpse.engine.watch import Did, attach
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

NARROW = RecallBudget(share=0.01, floor=16, sinks=2, recent=4)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("trust"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


def narrow(llm, *, device, budget=NARROW, selector=None, **options):
    """Fast steps read 16 positions; the least that options allow is the window of 256."""
    other = llm.variant(drafter="slowfast", pacer=None, lossy="slowfast", **options)
    parts = replace(make_parts(llm.loaded, other.options), budget=budget)
    parts.drafter._budget = budget
    parts.drafter._selector = selector or parts.drafter._selector
    other._engine = (device_engine if device else Engine)(parts, other.options)
    return other


def params_of(*tokens, **more):
    """Greedy and sampled in turn."""
    return [
        SamplingParams(max_tokens=most, temperature=0.9 * (row % 2), seed=row + 3, ignore_eos=True, **more)
        for row, most in enumerate(tokens)
    ]


def both(llm, prompts, params, **options):
    """Outputs of the eager engine, and of the device's."""
    return [narrow(llm, device=device, **options).generate(prompts, params) for device in (False, True)]


def test_rows_in_phases_of_their_own_write_the_eager_text(llm):
    """Four requests over three rows; slow steps after five fast ones, and at the ends of sentences."""
    free = llm.loaded.pool.free_pages
    eager, device = both(llm, prompts_of(llm, 20, 49, 33, 12), params_of(9, 14, 12, 8), draft_tokens=3)
    assert ids_of(device) == ids_of(eager)
    for mine, right in zip(device, eager, strict=True):
        found, wanted = mine.speculation, right.speculation
        assert found.trusted == wanted.trusted > 0
        assert found.draft_steps == wanted.draft_steps
        assert found.plain_steps == wanted.plain_steps
        assert (found.drafted, found.accepted) == (0, 0)
        assert found.lossy == "slowfast"
        assert not found.lossless
        assert set(found.eager_steps) == {"no CUDA device"}
    assert llm.loaded.pool.free_pages == free
    plain = llm.generate(prompts_of(llm, 20, 49, 33, 12), params_of(9, 14, 12, 8))
    assert ids_of(plain) != ids_of(device), "the sets matter, or this shows little"

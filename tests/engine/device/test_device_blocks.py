"""Block drafts on the device write what the eager engine writes, and count what it counts: one small model."""

from __future__ import annotations

import pytest
from tests.adapters import write_random_adapter

from engine.device.engines import greedy, ids_of, on_device, prompts_of
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("blocks") / "tiny", num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=128,
    )  # fmt: skip
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.fixture(scope="module")
def adapter(llm, tmp_path_factory):
    return str(write_random_adapter(tmp_path_factory.mktemp("adapter") / "random.safetensors", llm, size=3))


@pytest.fixture(autouse=True)
def few_processors(monkeypatch):
    """So that the interpreter has few programs to run."""
    monkeypatch.setattr("glimpse.attention.triton.attention.processors", lambda device: 4)


@pytest.fixture(autouse=True)
def no_page_lost(llm):
    free = llm.loaded.pool.free_pages
    yield
    assert (llm.loaded.pool.free_pages, llm.loaded.pool.promised) == (free, 0)


def options(adapter, **changed):
    return {"drafter": "block", "adapter": adapter, "pacer": "fixed", "draft_tokens": 3} | changed


def counts(outputs):
    """Rounds, drafted and accepted of each."""
    return [
        (own.rounds, own.drafted, own.accepted, own.draft_lengths)
        for own in (output.speculation for output in outputs)
    ]


def jobs(llm):
    """Three requests over two rows, greedy and sampled over few tokens so that drafts are accepted."""
    few = {"temperature": 1.0, "top_k": 2, "ignore_eos": True}
    return prompts_of(llm, 7, 3, 5), [
        greedy(6),
        SamplingParams(max_tokens=9, seed=4, **few),
        SamplingParams(max_tokens=5, seed=1, **few),
    ]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_texts_and_counts_are_the_eager_engines(llm, adapter, mode):
    prompts, params = jobs(llm)
    eager = llm.variant(**options(adapter, block_mode=mode)).generate(prompts, params)
    found = on_device(llm, **options(adapter, block_mode=mode)).generate(prompts, params)
    assert ids_of(found) == ids_of(eager) == ids_of(llm.generate(prompts, params))
    assert counts(found) == counts(eager)
    assert sum(output.speculation.accepted for output in found) > 0
    assert all(set(output.speculation.eager_steps) == {"no CUDA device"} for output in found)

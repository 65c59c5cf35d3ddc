"""Block drafts as CUDA graphs and their training on a GPU: the CPU's texts in float32, and a loss that falls."""

from __future__ import annotations

import pytest
from tests.adapters import write_random_adapter
from tests.tiny import write_tiny_checkpoint

from engine.device.blocks import counts, following, knowing, told, unlike
from glimpse.engine.build import make_parts
from glimpse.engine.engine import Engine
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from glimpse.training.loop import Trainer
from glimpse.training.recipe import Recipe
from glimpse.training.texts import read_corpus
from gpu.test_device_engine import exact_products, ids_of, llms, pages, params_of, prompts_of

__all__ = ["exact_products", "llms", "pages"]

ARMS = {
    "parallel": {"pacer": "fixed", "draft_tokens": 4, "block_mode": "parallel"},
    "sequential": {"pacer": "fixed", "draft_tokens": 3, "block_mode": "sequential"},
    "auto": {"pacer": "fixed"},
    "marginal": {"pacer": "marginal"},
    "cut": {"pacer": "marginal", "block_mode": "parallel"},
    "cut, apart": {"pacer": "marginal", "block_mode": "sequential"},
    "libraspec": {"pacer": "libraspec"},
}


@pytest.fixture
def adapter(llms, tmp_path):
    return str(write_random_adapter(tmp_path / "adapter", llms[0]))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("arm", ARMS)
def test_the_text_is_the_cpus_as_graphs(llms, pages, adapter, arm, temperature):
    """Six requests over four rows: rows join, leave and move. The second run meets the graphs of the first."""
    cpu, gpu = llms
    prompts, params = prompts_of(cpu, 40, 47, 100, 17, 80, 33), params_of(temperature, 24, 5, 40, 12, 24, 9)
    right = ids_of(cpu.generate(prompts, params))
    device = gpu.variant(drafter="block", adapter=adapter, **ARMS[arm])
    for _ in range(2):
        found = device.generate(prompts, params)
        assert ids_of(found) == right
    assert all(output.speculation.graph_steps for output in found)
    assert not any(output.speculation.eager_steps for output in found)
    assert ARMS[arm]["pacer"] != "fixed" or sum(output.speculation.drafted for output in found) > 20
    assert not device._engine.parts.drafter._blocks


@pytest.mark.parametrize(("mode", "ahead"), [("parallel", True), ("parallel", False), ("sequential", False)])
def test_texts_counts_and_blocks_are_the_eager_engines(llms, pages, adapter, mode, ahead, monkeypatch):
    """Token for token and chance for chance, on the same GPU; `ahead` of the host, which is told of no block then."""
    monkeypatch.setattr("glimpse.pacing.fixed.FixedPacer.foretells", ahead or mode == "sequential")
    monkeypatch.setattr("glimpse.engine.device.asking.Asking.asks", lambda self, rows: True)  # whatever a step takes
    gpu, prompts = llms[1], prompts_of(llms[1], 40, 17, 47)
    params = [SamplingParams(max_tokens=12, temperature=temperature, top_k=40, seed=4, ignore_eos=True)
              for temperature in (0.0, 0.8, 0.0)]  # fmt: skip
    plain = ids_of(gpu.generate(prompts, params))
    texts = [prompt + text for prompt, text in zip(prompts, plain, strict=True)]
    knowing(gpu, following(texts, gpu.spec.vocab_size), monkeypatch)
    asked = {"drafter": "block", "adapter": adapter, "pacer": "fixed", "draft_tokens": 4, "block_mode": mode}
    device, eager = gpu.variant(**asked), gpu.variant(**asked)
    eager._engine = Engine(make_parts(gpu.loaded, eager.options), eager.options)
    blocks, found_blocks = told(eager), told(device)
    right, found = eager.generate(prompts, params), device.generate(prompts, params)
    assert ids_of(right) == plain, "the eager engine's texts"
    assert ids_of(found) == plain, "the device's texts"
    assert all(output.speculation.graph_steps for output in found)
    assert device._engine._host.own is ahead
    assert ahead or not unlike(found_blocks, blocks), unlike(found_blocks, blocks)
    assert bool(found_blocks) is not ahead
    assert counts(found) == counts(right)
    assert sum(output.speculation.accepted for output in found) > 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("cuda") / "tiny", max_position_embeddings=1024)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_loss_falls(folder, tmp_path, dtype):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the rain in the north and the stones on the shore " * 40)
    llm = LLM(folder, drafter="none", pacer="fixed", device="cuda", dtype=dtype)
    recipe = Recipe(size=3, layers=2, rank=4, inner=8, steps=120, length=24, sequences=4, branches=8, rate=1e-2)
    checkpoint, points = llm.loaded.checkpoint, []
    corpus = read_corpus(tmp_path / "texts", checkpoint.tokenizer, recipe.length, checkpoint.spec.vocab_size)
    assert Trainer(checkpoint, corpus, recipe, tmp_path / "adapter").run(points.append, every=10)
    assert points[-1].loss < 0.7 * points[0].loss

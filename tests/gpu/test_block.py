"""Block drafts and their training on a GPU: the CPU's texts in float32, and a loss that falls."""

from __future__ import annotations

import pytest
from tests.adapters import write_random_adapter
from tests.tiny import write_tiny_checkpoint

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from glimpse.training.loop import Trainer
from glimpse.training.recipe import Recipe
from glimpse.training.texts import read_corpus

PROMPTS = [list(range(40, 40 + length)) for length in (1, 20, 200)]
LAWS = (SamplingParams(max_tokens=30, temperature=0.0), SamplingParams(max_tokens=30, temperature=0.8, seed=2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("cuda") / "tiny", max_position_embeddings=1024)


@pytest.mark.parametrize("mode", ["auto", "parallel", "sequential"])
def test_the_texts_of_the_cpu(folder, tmp_path, mode):
    host = LLM(folder, drafter="none", pacer="fixed", device="cpu", dtype="float32")
    adapter = write_random_adapter(tmp_path / "adapter", host)
    gpu = LLM(folder, drafter="block", adapter=adapter, block_mode=mode, pacer="fixed", device="cuda", dtype="float32")
    for params in LAWS:
        found = gpu.generate(PROMPTS, params)
        assert [out.token_ids for out in found] == [out.token_ids for out in host.generate(PROMPTS, params)]
        reasons = {reason for out in found for reason in out.speculation.eager_steps}
        assert reasons == {"drafter 'block' has mask tokens ride in forwards"}


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

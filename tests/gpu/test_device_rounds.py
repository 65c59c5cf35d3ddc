"""Device rounds on a GPU, as CUDA graphs: float32 texts equal the engine's on the CPU, whatever is drafted."""

from __future__ import annotations

import pytest
import torch

from engine.device.batches import begins, made, texts
from glimpse.llm import LLM
from glimpse.model import load_checkpoint
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint

TOKENS = 24


@pytest.fixture(scope="module", params=[192, 48], ids=["narrow", "plain products"])
def models(request, tmp_path_factory):
    """(the engine over a tiny checkpoint, its decoder on the GPU)."""
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("device") / "tiny", hidden_size=request.param, intermediate_size=128, head_dim=32
    )
    decoder = load_checkpoint(folder, dtype=torch.float32, device="cuda").decoder
    return LLM(folder, drafter="none", pacer="fixed", device="cpu"), decoder


@pytest.fixture(autouse=True)
def exact_products():
    """Float32 products in float32, as on the CPU."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_the_text_is_the_engines(models, temperature, gamma):
    llm, decoder = models
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    prompts = [ids[:40], ids[:47], ids[:41]]
    params = [
        SamplingParams(max_tokens=TOKENS, temperature=temperature, top_k=20, top_p=0.95, seed=seed, ignore_eos=True)
        for seed in (1, 2, 3)
    ]
    right = [list(output.token_ids) for output in llm.generate(prompts, params)]
    batch = made(decoder, llm.tokenizer.vocab_size, prompts, params, TOKENS)
    *_, found = texts(batch, gamma, TOKENS // (gamma + 1))
    assert all(begins(own, other) for own, other in zip(right, found, strict=True))
    assert all(len(own) >= TOKENS // (gamma + 1) for own in found)

"""transformers' generate with a static cache, whose forward it compiles by itself on a GPU."""

from __future__ import annotations

import time
from typing import Any

import torch
from noise_decoder import spec_named
from peer_timing import REPEATS, SAMPLED, STEPS, Timed, settle
from transformers import AutoModelForCausalLM, LlamaConfig, StoppingCriteria, StoppingCriteriaList

SKIPPED = 20
"""Steps at the start of a run that do not count: its graph may be recorded anew."""


class Stamps(StoppingCriteria):
    """Stops nothing; notes when each token was there."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.times.append(time.perf_counter())
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def network(shape: str, device: torch.device) -> Any:
    """A Llama of the shape with random bf16 weights."""
    spec = spec_named(shape)
    config = LlamaConfig(
        vocab_size=spec.vocab_size, hidden_size=spec.hidden_size, intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.layers, num_attention_heads=spec.heads, num_key_value_heads=spec.kv_heads,
        head_dim=spec.head_dim, max_position_embeddings=spec.context_length, rms_norm_eps=spec.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope.theta}, tie_word_embeddings=spec.tied,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


@torch.inference_mode()
def measure(net: Any, shape: str, context: int) -> Timed:
    """`generate` at batch 1 after a prompt of `context` random tokens; the time of its decoding steps alone."""
    torch._dynamo.reset()
    prompt = torch.randint(net.config.vocab_size, (1, context), device=net.device)
    settings = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": True, "top_p": 0.9, **SAMPLED}

    def run() -> float:
        stamps = Stamps()
        net.generate(
            prompt, attention_mask=torch.ones_like(prompt), cache_implementation="static",
            stopping_criteria=StoppingCriteriaList([stamps]), **settings,
        )  # fmt: skip
        settle()
        return (time.perf_counter() - stamps.times[SKIPPED]) / (STEPS - 1 - SKIPPED)

    begun = time.perf_counter()
    run()
    once = time.perf_counter() - begun
    note = "random weights; static cache, forward compiled by generate; T=0.7, top-k 50, top-p 0.9"
    return Timed("transformers", shape, context, tuple(run() for _ in range(REPEATS)), once, note)

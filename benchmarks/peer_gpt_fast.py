"""gpt-fast's compiled decoding (github.com/meta-pytorch/gpt-fast, BSD-3), driven as its generate.py drives it.

The checkout is given by its path and is no part of this repository. Weights are random and the cache holds noise: dense
decoding costs the same whatever they are, and there is nothing to prefill.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config
from noise_decoder import SCALE
from peer_timing import SAMPLED, STEPS, Timed, repeated, settle
from torch.nn.attention.flex_attention import create_block_mask

WARM_UP = 4
"""Steps before the first that counts: compilation, the warm-up and the recording of its CUDA graph, a replay."""


@contextmanager
def opened(folder: Path) -> Iterator[tuple[ModuleType, ModuleType]]:
    """gpt-fast's modules (generate, model), with the compiler settings that importing them makes; undone at the end."""
    inductor, functorch = torch._inductor.config, torch._functorch.config
    before = inductor.coordinate_descent_tuning, inductor.triton.unique_kernel_names
    cached = functorch.enable_autograd_cache
    # generate.py imports the tokenizer's libraries, which nothing here needs.
    stand_in = ModuleType("tokenizer")
    stand_in.get_tokenizer = None  # type: ignore[attr-defined]
    sys.modules["tokenizer"] = stand_in
    sys.path.insert(0, str(folder))
    try:
        import generate

        import model

        yield generate, model
    finally:
        sys.path.remove(str(folder))
        inductor.coordinate_descent_tuning, inductor.triton.unique_kernel_names = before
        functorch.enable_autograd_cache = cached


@torch.no_grad()
def network(model: ModuleType, arguments: Any, device: torch.device) -> Any:
    """A Transformer with random bf16 weights; norms are ones."""
    with torch.device("meta"):
        made = model.Transformer(arguments).to(torch.bfloat16)
    made = made.to_empty(device=device).eval()
    for parameter in made.parameters():
        parameter.fill_(1.0) if parameter.dim() == 1 else parameter.normal_(0, SCALE)
    return made


@torch.no_grad()
def measure(generate: ModuleType, net: Any, shape: str, context: int, backend: dict[str, Any] | None = None) -> Timed:
    """Decoding at batch 1 from `context` tokens on; `backend` replaces the mode that generate.py compiles with."""
    device, begun = net.output.weight.device, time.perf_counter()
    torch._dynamo.reset()
    net.max_seq_length = net.max_batch_size = -1
    with torch.device(device):
        net.setup_caches(max_batch_size=1, max_seq_length=context + STEPS + WARM_UP)
    for layer in net.layers:
        for cache in (layer.attention.kv_cache.k_cache, layer.attention.kv_cache.v_cache):
            cache.normal_()
    length = net.max_seq_length
    mask = create_block_mask(generate.causal_mask, 1, 1, length, length, device=device)
    decode = torch.compile(generate.decode_one_token, fullgraph=True, **(backend or {"mode": "reduce-overhead"}))

    def run(steps: int = STEPS) -> None:
        # The loop of generate.py's decode_n_tokens, but for the mask, which is made once.
        position = torch.tensor([context], device=device, dtype=torch.int)
        token = torch.zeros(1, 1, device=device, dtype=torch.int)
        tokens, laws = [], []
        for _ in range(steps):
            following, law = decode(net, token, position, mask, **SAMPLED)
            position += 1
            tokens.append(following.clone())
            laws.append(law.clone())
            token = following.clone()

    run(WARM_UP)
    settle()
    once = time.perf_counter() - begun
    note = "random weights, noise in the cache; torch.compile reduce-overhead; T=0.7, top-k 50"
    return Timed("gpt-fast", shape, context, repeated(run), once, note)

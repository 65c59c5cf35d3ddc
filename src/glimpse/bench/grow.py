"""Real tokens at a larger model's cost: grows a checkpoint into a larger twin that computes the same function.

Tokens, acceptance and recall are the small model's; bytes and operations of a step are the large one's. Whatever is
measured on a twin is labelled so ("135M tokens at 8.0B cost"). How each part grows: `grow_plan` (which part copies
which) and `grow_weights` (the arithmetic).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import torch

from glimpse.bench.grow_plan import GrownShape
from glimpse.bench.grow_source import open_source
from glimpse.bench.grow_weights import GrownWeights
from glimpse.errors import ArgumentError
from glimpse.model.build import Progress, build_decoder
from glimpse.model.checkpoint import Checkpoint
from glimpse.model.decoder import Decoder
from glimpse.model.rope import RopeSpec
from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.source import WeightSource

SHAPES = {
    "llama-3.1-8b": GrownShape(
        layers=32, hidden_size=4096, heads=32, kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=128256
    ),
    "1.7b": GrownShape(
        layers=30, hidden_size=2048, heads=16, kv_heads=8, head_dim=128, intermediate_size=5632, vocab_size=151936
    ),
}
"""Twins by name.

`llama-3.1-8b` has every size of Llama-3.1-8B, the head's 128,256 rows included: a step reads 15.0 GB in bf16. `1.7b`
reads what Qwen3-1.7B reads (28 layers of MLP 6,144, a tied head of 151,936 rows: 3.44 GB), spread over the 30 layers of
the demo model by an MLP of 5,632 (+0.4%). Ids past the source's vocabulary do not exist: samplers mask them, and their
logit is never the largest.
"""


def shape_named(name: str) -> GrownShape:
    """Raises ArgumentError listing the known names."""
    if name not in SHAPES:
        raise ArgumentError(f"unknown shape {name!r}; known: {', '.join(SHAPES)}")
    return SHAPES[name]


def grow(
    source: DecoderSpec,
    weights: WeightSource,
    shape: GrownShape | str,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
) -> Decoder:
    """The twin, its tensors made on `device` one by one; `seed` chooses the rotation of the residual stream.

    Raises ArgumentError for a shape that the source cannot grow into, ModelError for weights that do not fit `source`.
    """
    asked = shape_named(shape) if isinstance(shape, str) else shape
    twin = GrownWeights(source, weights, asked, device=device, seed=seed)
    with torch.inference_mode():
        return build_decoder(twin.spec, twin, dtype=dtype, device=device, progress=progress)


def grow_checkpoint(
    path: Path,
    shape: GrownShape | str,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    seed: int = 0,
    rope_theta: float | None = None,
    context_length: int | None = None,
    progress: Progress | None = None,
) -> Checkpoint:
    """A grown checkpoint (a Hugging Face folder or a GGUF file) with the source's tokenizer, ready for an engine.

    `rope_theta` and `context_length` replace the source's, for contexts past what it was trained on; the name says so.
    """
    opened = open_source(path)
    spec, name = opened.spec, opened.name
    if rope_theta is not None:
        spec = replace(spec, rope=RopeSpec(rope_theta, spec.head_dim, spec.rope.scaling))
        name = f"{name}, rotary base {rope_theta:g}"
    spec = replace(spec, context_length=context_length or spec.context_length)
    decoder = grow(spec, opened.weights, shape, dtype=dtype, device=device, seed=seed, progress=progress)
    return Checkpoint(
        f"{name}, {cost_label(spec, decoder.spec)}", decoder, opened.tokenizer, opened.generation_defaults,
        twin_fingerprint(opened.fingerprint(), decoder.spec, seed),
    )  # fmt: skip


def twin_fingerprint(source: str, twin: DecoderSpec, seed: int = 0) -> str:
    """A twin's `Checkpoint.fingerprint`, of its source's and of what it was grown to; its weights follow from these."""
    sizes = [(name, getattr(twin, name)) for name in sorted(GrownShape.__slots__)]
    return hashlib.sha256(repr((source, sizes, seed)).encode()).hexdigest()[:16]


def cost_label(source: DecoderSpec, twin: DecoderSpec) -> str:
    """What a figure measured on the twin must be labelled with."""
    return f"{_size(source.parameters())} tokens at {_size(twin.parameters())} cost"


def _size(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"

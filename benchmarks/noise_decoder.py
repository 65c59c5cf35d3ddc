"""Decoders of any shape with random weights: what a plain step costs does not depend on the values it multiplies."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glimpse.bench.grow import SHAPES
from glimpse.bench.grow_plan import twin_spec
from glimpse.model.decoder import Decoder, Layer, Norm
from glimpse.model.embedding import DenseEmbedding
from glimpse.model.linear import DenseLinear
from glimpse.model.rope import RopeSpec, Rotary
from glimpse.model.rope_scaling import Plain
from glimpse.model.spec import DecoderSpec
from glimpse.planning.models import DEMO_SPEC

SCALE = 0.02
"""Standard deviation of the weights, as transformers initialises them: hidden states stay finite."""
LONGEST = 131072


def spec_named(shape: str) -> DecoderSpec:
    """The demo model's spec, or that of a shape of `glimpse.bench.grow`, with room for long contexts."""
    spec = DEMO_SPEC if shape == "demo" else twin_spec(DEMO_SPEC, SHAPES[shape])
    return replace(spec, norm_eps=1e-5, rope=RopeSpec(500000.0, spec.head_dim, Plain()), context_length=LONGEST)


def noise_decoder(spec: DecoderSpec, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Decoder:
    """A decoder of `spec` without biases and q/k norms, every matrix drawn on `device`."""
    generator = torch.Generator(device).manual_seed(seed)

    def noise(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator, device=device, dtype=dtype).mul_(SCALE)

    def norm() -> Norm:
        return Norm(torch.ones(spec.hidden_size, device=device, dtype=dtype), spec.norm_eps)

    def layer() -> Layer:
        return Layer(
            attention_norm=norm(),
            qkv=DenseLinear(noise(spec.qkv_rows, spec.hidden_size)),
            qk_norm=None,
            output=DenseLinear(noise(spec.hidden_size, spec.heads * spec.head_dim)),
            mlp_norm=norm(),
            gate_up=DenseLinear(noise(2 * spec.intermediate_size, spec.hidden_size)),
            down=DenseLinear(noise(spec.hidden_size, spec.intermediate_size)),
        )

    embedding = noise(spec.vocab_size, spec.hidden_size)
    head = embedding if spec.tied else noise(spec.vocab_size, spec.hidden_size)
    layers = [layer() for _ in range(spec.layers)]
    return Decoder(spec, DenseEmbedding(embedding), layers, norm(), DenseLinear(head), Rotary(spec.rope, device))

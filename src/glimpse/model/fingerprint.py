"""What tells one checkpoint from another: for what was made for one and means nothing to others."""

from __future__ import annotations

import hashlib

import torch

from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.source import WeightSource


def fingerprint(spec: DecoderSpec, source: WeightSource) -> str:
    """The first 16 digits of a SHA-256 over the sizes, all norms of the layers and one projection, as stored.

    Neither dtype nor device of the loaded model matters; another quantisation is another checkpoint.
    """
    hashed = hashlib.sha256(repr((spec.hidden_size, spec.layers, spec.heads, spec.kv_heads, spec.vocab_size)).encode())
    names = [
        f"model.layers.{index}.{part}_layernorm.weight"
        for index in range(spec.layers)
        for part in ("input", "post_attention")
    ]
    for name in (*names, "model.norm.weight", f"model.layers.{spec.layers - 1}.self_attn.k_proj.weight"):
        hashed.update(source.tensor(name).to(torch.float32).contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]

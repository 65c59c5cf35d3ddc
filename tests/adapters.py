"""Adapters for tests: random ones, whose blocks are mostly wrong and sometimes right."""

from __future__ import annotations

from pathlib import Path

import torch

from glimpse.drafting.block.adapter import BlockConfig, shapes_of, write_adapter


def write_random_adapter(path: Path, llm, *, seed: int = 0, scale: float = 0.3, **changed) -> Path:
    """An adapter for the model of `llm` with random tensors."""
    checkpoint = llm.loaded.checkpoint
    facts = {"target": "tiny", "fingerprint": checkpoint.fingerprint, "size": 4, "first": 1, "rank": 3, "inner": 8}
    config = BlockConfig(**facts | changed)
    write_adapter(path, config, random_tensors(checkpoint.spec, config, seed, scale))
    return path


def random_tensors(spec, config: BlockConfig, seed: int = 0, scale: float = 0.3) -> dict[str, torch.Tensor]:
    """Tensors of an adapter: the norms about 1, all else about 0."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: scale * torch.randn(shape, generator=generator) + (1 if name.endswith("qk_norm") else 0)
        for name, shape in shapes_of(spec, config).items()
    }

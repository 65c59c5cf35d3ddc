"""Loading a GGUF file as a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from glimpse.errors import ArgumentError
from glimpse.model.build import Consider, Progress, build_decoder
from glimpse.model.checkpoint import Checkpoint, with_eos
from glimpse.model.fingerprint import fingerprint
from glimpse.model.gguf_config import spec_from_gguf
from glimpse.model.gguf_tokenizer import tokenizer_from_gguf
from glimpse.model.names import gguf_name
from glimpse.model.weights.gguf import GgufWeights
from glimpse.model.weights.gguf_file import open_gguf


def load_gguf(
    path: Path,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    progress: Progress | None,
    consider: Consider | None,
) -> Checkpoint:
    """Load one GGUF file; see `load_checkpoint`."""
    if not path.is_file():
        raise ArgumentError(f"no such GGUF file: {path}")
    file = open_gguf(path)
    spec = spec_from_gguf(file)
    tokenizer = tokenizer_from_gguf(file)
    spec = with_eos(spec, (), tokenizer)
    if consider:
        consider(spec)
    # Only this architecture is stored with neighbouring rotary dimensions paired.
    interleaved = {"q_proj": spec.heads, "k_proj": spec.kv_heads} if spec.architecture == "llama" else None
    weights = GgufWeights(file, interleaved)
    decoder = build_decoder(spec, weights, dtype=dtype, device=device, progress=progress)
    return Checkpoint(gguf_name(file.metadata, path), decoder, tokenizer, {}, fingerprint(spec, weights))

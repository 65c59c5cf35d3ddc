"""A checkpoint opened, but its weights not read yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glimpse.model.checkpoint import with_eos
from glimpse.model.fingerprint import fingerprint
from glimpse.model.gguf_config import spec_from_gguf
from glimpse.model.gguf_tokenizer import tokenizer_from_gguf
from glimpse.model.hf_checkpoint import default_eos, generation_defaults
from glimpse.model.hf_config import read_config, spec_from_config
from glimpse.model.names import gguf_name
from glimpse.model.spec import DecoderSpec
from glimpse.model.tokenizer import Tokenizer, load_tokenizer
from glimpse.model.weights.gguf import GgufWeights
from glimpse.model.weights.gguf_file import open_gguf
from glimpse.model.weights.safetensors import SafetensorsWeights
from glimpse.model.weights.source import WeightSource


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """All of a checkpoint but its decoder."""

    name: str
    spec: DecoderSpec
    weights: WeightSource
    tokenizer: Tokenizer
    generation_defaults: dict[str, Any]

    def fingerprint(self) -> str:
        """See `glimpse.model.fingerprint`; it reads a few weights."""
        return fingerprint(self.spec, self.weights)


def open_source(path: Path) -> OpenedSource:
    """Open a Hugging Face folder or a GGUF file; errors as `load_checkpoint`'s."""
    return _open_gguf(path) if path.suffix == ".gguf" else _open_folder(path)


def _open_gguf(path: Path) -> OpenedSource:
    file = open_gguf(path)
    tokenizer = tokenizer_from_gguf(file)
    spec = with_eos(spec_from_gguf(file), (), tokenizer)
    # Only this architecture is stored with neighbouring rotary dimensions paired.
    interleaved = {"q_proj": spec.heads, "k_proj": spec.kv_heads} if spec.architecture == "llama" else None
    return OpenedSource(gguf_name(file.metadata, path), spec, GgufWeights(file, interleaved), tokenizer, {})


def _open_folder(path: Path) -> OpenedSource:
    spec = spec_from_config(read_config(path), str(path / "config.json"))
    tokenizer, defaults = load_tokenizer(path), generation_defaults(path)
    spec = with_eos(spec, default_eos(path, defaults), tokenizer)
    return OpenedSource(path.resolve().name, spec, SafetensorsWeights(path), tokenizer, defaults)

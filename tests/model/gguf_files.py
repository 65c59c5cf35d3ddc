"""Tiny GGUF files, written with the gguf package's own writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType

from glimpse.model.hf_config import spec_from_config
from glimpse.model.weights.gguf import gguf_name
from tests.tiny import CHAT_TEMPLATE, SPECIAL, byte_vocabulary, tiny_weights

ARCHITECTURE = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}


def write_tiny_gguf(
    path: Path,
    config: dict[str, Any],
    *,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    skip: tuple[str, ...] = (),
    extra: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write the model `tiny_weights` draws for `config`, matrices quantised as `kind`, tensors in `skip` left out.

    `metadata` replaces or adds keys (None removes one), `extra` adds float32 tensors.
    """
    spec = spec_from_config(config)
    family = ARCHITECTURE[spec.architecture]
    writer = gguf.GGUFWriter(path, family)
    for key, value in (_metadata(family, spec) | (metadata or {})).items():
        if value is not None:
            add(writer, key, value)
    for name, tensor in tiny_weights(config).items():
        if name in skip:
            continue
        array = tensor.numpy()
        if family == "llama" and ("q_proj" in name or "k_proj" in name):
            array = interleaved(array, spec.heads if "q_proj" in name else spec.kv_heads)
        used = kind if array.ndim == 2 else GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(array, used), raw_dtype=used)
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleaved(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp stores them: row i of a head next to row i + half."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Add one metadata value with the type its Python type suggests."""
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    kinds.get(type(value), writer.add_array)(key, value)


def _metadata(family: str, spec: Any) -> dict[str, Any]:
    model = {
        "context_length": spec.context_length,
        "embedding_length": spec.hidden_size,
        "feed_forward_length": spec.intermediate_size,
        "block_count": spec.layers,
        "attention.head_count": spec.heads,
        "attention.head_count_kv": spec.kv_heads,
        "attention.key_length": spec.head_dim,
        "attention.layer_norm_rms_epsilon": spec.norm_eps,
        "rope.freq_base": spec.rope.theta,
    }
    vocab, merges = byte_vocabulary(max(spec.vocab_size, 259))
    tokenizer = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": list(vocab),
        "token_type": [3] * len(SPECIAL) + [1] * (len(vocab) - len(SPECIAL)),
        "merges": [" ".join(merge) for merge in merges] or ["a b"],
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    named = {f"{family}.{key}": value for key, value in model.items()}
    named |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}
    return named | {"general.name": "tiny", "tokenizer.chat_template": CHAT_TEMPLATE}

"""Tiny random checkpoints for every room's tests.

The weights are made so that greedy text varies and cache faults show (`cases.md`, lessons 1 and 3): unit embeddings,
layer weights of std 3 / sqrt(hidden), an untied head, 6 query and 2 KV heads. Nothing is downloaded, all is seeded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glimpse.model.build import build_decoder
from glimpse.model.decoder import Decoder
from glimpse.model.hf_config import spec_from_config
from glimpse.model.weights.memory import MemoryWeights

NAMES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_config(architecture: str = "llama", **overrides: Any) -> dict[str, Any]:
    """The content of a small config.json; `overrides` replace or add keys (None removes one)."""
    config: dict[str, Any] = {
        "architectures": [NAMES[architecture]],
        "model_type": architecture,
        "vocab_size": 97,
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "torch_dtype": "float32",
    }
    if architecture == "mistral":
        config["sliding_window"] = None
    config.update(overrides)
    return {key: value for key, value in config.items() if value is not None or key not in overrides}


def tiny_weights(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random float32 weights under Hugging Face names."""
    spec = spec_from_config(config)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, std: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * std

    hidden, inner, std = spec.hidden_size, spec.intermediate_size, 3 / spec.hidden_size**0.5
    width, key_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    weights = {"model.embed_tokens.weight": draw(spec.vocab_size, hidden, std=1.0)}
    if not spec.tied:
        weights["lm_head.weight"] = draw(spec.vocab_size, hidden, std=std)
    for index in range(spec.layers):
        base = f"model.layers.{index}."
        shapes = {
            "self_attn.q_proj": (width, hidden, spec.qkv_bias),
            "self_attn.k_proj": (key_width, hidden, spec.qkv_bias),
            "self_attn.v_proj": (key_width, hidden, spec.qkv_bias),
            "self_attn.o_proj": (hidden, width, spec.output_bias),
            "mlp.gate_proj": (inner, hidden, spec.mlp_bias),
            "mlp.up_proj": (inner, hidden, spec.mlp_bias),
            "mlp.down_proj": (hidden, inner, spec.mlp_bias),
        }
        for name, (rows, columns, bias) in shapes.items():
            weights[f"{base}{name}.weight"] = draw(rows, columns, std=std)
            if bias:
                weights[f"{base}{name}.bias"] = draw(rows, std=0.5)
        norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
        if spec.qk_norm:
            norms |= {"self_attn.q_norm": spec.head_dim, "self_attn.k_norm": spec.head_dim}
        for name, size in norms.items():
            weights[f"{base}{name}.weight"] = 1 + draw(size, std=0.1)
    weights["model.norm.weight"] = 1 + draw(hidden, std=0.1)
    return weights


def tiny_decoder(
    architecture: str = "llama", *, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any
) -> Decoder:
    """A decoder with random weights, without files."""
    config = tiny_config(architecture, **overrides)
    return build_decoder(spec_from_config(config), MemoryWeights(tiny_weights(config, seed)), dtype=dtype)


def write_tiny_checkpoint(
    folder: Path,
    architecture: str = "llama",
    *,
    seed: int = 0,
    add_bos: bool = False,
    dead_ids: int = 0,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
    generation_config: dict[str, Any] | None = None,
    **overrides: Any,
) -> Path:
    """Write a whole Hugging Face folder and return it.

    The tokenizer has `vocab_size - dead_ids` tokens: 3 special ones (0 `<|endoftext|>`, 1 `<|im_start|>`, also BOS, 2
    `<|im_end|>`, also EOS), the 256 bytes, then merges, so any text round-trips. `shards` > 1 writes an index.
    """
    overrides = {"vocab_size": 300, "bos_token_id": 1, "eos_token_id": 2} | overrides
    config = tiny_config(architecture, **overrides)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    weights = {name: tensor.to(dtype) for name, tensor in tiny_weights(config, seed).items()}
    write_weights(folder, weights, shards)
    write_tokenizer(folder, config["vocab_size"] - dead_ids, add_bos=add_bos)
    if generation_config is not None:
        write_json(folder / "generation_config.json", generation_config)
    return folder


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_weights(folder: Path, weights: dict[str, Tensor], shards: int = 1) -> None:
    """Write `model.safetensors`, or shards of it with their index."""
    if shards == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(weights)
    index: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: weights[name] for name in names[shard::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})


def write_tokenizer(folder: Path, size: int, *, add_bos: bool = False) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`: byte-level BPE with `size` tokens (at least 259)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    vocab, merges = byte_vocabulary(size)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    if add_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{SPECIAL[1]} $A", pair=f"{SPECIAL[1]} $A {SPECIAL[1]} $B", special_tokens=[(SPECIAL[1], 1)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "unk_token": SPECIAL[0],
        "pad_token": SPECIAL[2],
        "add_bos_token": add_bos,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1_000_000,
        "chat_template": CHAT_TEMPLATE,
    }
    write_json(folder / "tokenizer_config.json", settings)


def byte_vocabulary(size: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of the tiny tokenizer: special tokens, bytes, then pairs of common letters."""
    from tokenizers import pre_tokenizers

    if size < 259:
        raise ValueError(f"the tiny tokenizer needs at least 259 tokens, got {size}")
    vocab = {text: index for index, text in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    pairs = [(first, second) for first in "Ġtheaoinsr" for second in "etaoinshrd"]
    pairs = pairs[: size - len(vocab)]
    if len(vocab) + len(pairs) < size:
        raise ValueError(f"the tiny tokenizer has at most {len(vocab) + len(pairs)} tokens, got {size}")
    for first, second in pairs:
        vocab[first + second] = len(vocab)
    return vocab, pairs

"""A `DecoderSpec` from a Hugging Face `config.json`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

from glimpse.errors import ArgumentError, ModelError
from glimpse.model.rope import RopeSpec
from glimpse.model.rope_config import scaling_from_config
from glimpse.model.spec import DecoderSpec

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
"""Names in config.json that can be loaded, and the family each belongs to."""


def read_config(folder: Path) -> dict[str, Any]:
    """The raw config.json. Raises ArgumentError if the folder or the file is missing, ModelError if it is broken."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ArgumentError(f"no such model folder: {folder}")
    if not path.is_file():
        raise ArgumentError(f"{folder} has no config.json, so it is not a Hugging Face checkpoint")
    return read_json(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a checkpoint; ModelError if it is anything else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error})") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds a {type(value).__name__}, not a JSON object")
    return value


def spec_from_config(raw: Mapping[str, Any], label: str = "config.json") -> DecoderSpec:
    """Read a spec out of `raw`, the content of a config.json; `label` names it in errors.

    Raises ModelError naming what is not supported and what is.
    """
    family = _family(raw, label)
    refuse_unsupported(raw, label)
    config = _complete(family, raw, label)
    _refuse_windows(config, label)
    try:
        spec = _spec(family, config, label)
        check_sizes(spec, label)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{label}: not a usable configuration: {error}") from error
    return spec


def supported() -> str:
    """The architectures that work, as one phrase for error messages."""
    return f"supported architectures: {', '.join(ARCHITECTURES)} (SmolLM2 is one of the first)"


def _family(raw: Mapping[str, Any], label: str) -> str:
    names = raw.get("architectures") or [f"unnamed (model_type {raw.get('model_type')!r})"]
    name = str(names[0] if isinstance(names, list) else names)
    if name not in ARCHITECTURES:
        raise ModelError(f"{label}: architecture {name} is not supported; {supported()}")
    return ARCHITECTURES[name]


def refuse_unsupported(raw: Mapping[str, Any], label: str) -> None:
    """Refuse quantised checkpoints and other activations."""
    if quantised := raw.get("quantization_config"):
        method = quantised.get("quant_method", "unnamed") if isinstance(quantised, dict) else quantised
        raise ModelError(
            f"{label}: quantised checkpoint ({method}) is not supported; use the float weights or a GGUF file"
        )
    if (activation := raw.get("hidden_act", "silu")) not in ("silu", "swish"):
        raise ModelError(f"{label}: hidden_act {activation!r} is not supported; only 'silu' is")


def _complete(family: str, raw: Mapping[str, Any], label: str) -> Any:
    """The config with transformers' defaults filled in, both rotary spellings brought to `rope_parameters`."""
    import transformers

    kinds: dict[str, Any] = {
        "llama": transformers.LlamaConfig,
        "mistral": transformers.MistralConfig,
        "qwen2": transformers.Qwen2Config,
        "qwen3": transformers.Qwen3Config,
    }
    try:
        return kinds[family].from_dict(dict(raw))
    except Exception as error:  # transformers raises many kinds for a bad value
        reason = " ".join(str(error).split())
        raise ModelError(f"{label}: not a valid {family} configuration: {reason}") from error


def _refuse_windows(config: Any, label: str) -> None:
    window = getattr(config, "sliding_window", None)
    sliding = {kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"}
    if window is not None or sliding:
        what = f"a sliding window of {window}" if window is not None else f"layers of type {', '.join(sorted(sliding))}"
        raise ModelError(f"{label}: {what} is not supported; full attention in every layer is ({supported()})")


def _spec(family: str, config: Any, label: str) -> DecoderSpec:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    bias = bool(getattr(config, "attention_bias", False))
    theta, scaling = scaling_from_config(config, label)
    return DecoderSpec(
        architecture=family,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        norm_eps=config.rms_norm_eps,
        qkv_bias=family == "qwen2" or (family in ("llama", "qwen3") and bias),
        output_bias=family in ("llama", "qwen3") and bias,
        mlp_bias=family == "llama" and bool(config.mlp_bias),
        qk_norm=family == "qwen3",
        tied=bool(config.tie_word_embeddings),
        rope=RopeSpec(theta, head_dim, scaling),
        context_length=scaling.context_length(config.max_position_embeddings),
        eos_token_ids=as_ids(config.eos_token_id, label),
    )


def as_ids(value: object, label: str) -> tuple[int, ...]:
    """An end-of-text setting (one id, several, none) as a tuple; ModelError naming `label` if it is none of these."""
    if value is None:
        return ()
    ids: tuple[Any, ...] = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(index, Integral) and not isinstance(index, bool) for index in ids):
        raise ModelError(f"{label}: eos_token_id is {value!r}; it must be a token id or a list of them")
    return ids


_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "context_length",
)
_MOST = 1 << 40
"""No size or length of a decoder comes near it, and products of a few still are numbers that torch can hold."""


def check_sizes(spec: DecoderSpec, label: str) -> None:
    """Refuse sizes that cannot be right, before any weight is read."""
    for name in _SIZES:
        if not 1 <= getattr(spec, name) <= _MOST:
            raise ModelError(f"{label}: {name} is {getattr(spec, name)}; it must be from 1 to {_MOST}")
    if spec.heads % spec.kv_heads:
        raise ModelError(f"{label}: {spec.heads} query heads cannot share {spec.kv_heads} KV heads evenly")
    if spec.head_dim % 2:
        raise ModelError(f"{label}: head_dim {spec.head_dim} is odd; rotary embeddings need an even one")
    _check_numbers(spec, label)


def _check_numbers(spec: DecoderSpec, label: str) -> None:
    """Refuse numbers that would make every logit NaN, or the rotation undefined."""
    scaling = spec.rope.scaling
    stretches = {f"rotary {each.name}": getattr(scaling, each.name) for each in dataclasses.fields(scaling)}  # type: ignore[arg-type]
    numbers = {"norm_eps": spec.norm_eps, "attention_factor": scaling.attention_factor} | stretches
    for name, value in numbers.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value <= _MOST:
            raise ModelError(f"{label}: {name} is {value}; it must be above 0 and at most {_MOST}")
    if not 1 < spec.rope.theta < math.inf:
        raise ModelError(f"{label}: the rotary base is {spec.rope.theta}; it must be a finite number above 1")

"""A `DecoderSpec` from GGUF metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glimpse.errors import ModelError
from glimpse.model.hf_config import as_ids, check_sizes
from glimpse.model.rope import RopeSpec
from glimpse.model.rope_config import yarn_attention_factor
from glimpse.model.rope_scaling import Divisors, Linear, Plain, RopeScaling, Yarn
from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.gguf_file import GgufFile

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""`general.architecture` values that can be loaded; "llama" also stands for Mistral and SmolLM2."""


def spec_from_gguf(file: GgufFile) -> DecoderSpec:
    """Read a spec out of a GGUF file. ModelError naming what is missing or not supported, and what is."""
    family = file.metadata.get("general.architecture")
    if family not in ARCHITECTURES:
        raise ModelError(
            f"{file.path}: GGUF architecture {family!r} is not supported; these are: {', '.join(ARCHITECTURES)}"
        )
    keys = _Keys(file, family)
    try:
        _refuse_unsupported(keys)
        spec = _spec(keys)
        check_sizes(spec, str(file.path))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{file.path}: metadata of {family!r} is not usable: {error}") from error
    return spec


@dataclass(frozen=True, slots=True)
class _Keys:
    """Metadata of one architecture, by the last part of the key."""

    file: GgufFile
    family: str

    def get(self, key: str, default: Any = None) -> Any:
        return self.file.metadata.get(f"{self.family}.{key}", default)

    def need(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise ModelError(f"{self.file.path}: metadata {self.family}.{key} is missing")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; without a default it must be there. ValueError if it is anything else."""
        value = self.need(key) if default is None else self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{self.family}.{key} is {value!r}, not a whole number")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A number; without a default it must be there. ValueError if it is anything else."""
        value = self.need(key) if default is None else self.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{self.family}.{key} is {value!r}, not a number")
        return float(value)

    def has(self, tensor: str) -> bool:
        return tensor in self.file.tensors


def _refuse_unsupported(keys: _Keys) -> None:
    path = keys.file.path
    if keys.file.metadata.get("split.count", 1) > 1:
        raise ModelError(f"{path}: one part of a split GGUF; merge the parts into one file first")
    if keys.get("expert_count", 0):
        raise ModelError(f"{path}: a mixture of experts is not supported; dense models are")
    if window := keys.get("attention.sliding_window", 0):
        raise ModelError(f"{path}: a sliding window of {window} is not supported; full attention in every layer is")


def _spec(keys: _Keys) -> DecoderSpec:
    heads, hidden = keys.whole("attention.head_count"), keys.whole("embedding_length")
    head_dim = keys.whole("attention.key_length", hidden // heads)
    if keys.get("rope.dimension_count", head_dim) != head_dim:
        raise ModelError(f"{keys.file.path}: rotating only part of a head is not supported")
    if "token_embd.weight" not in keys.file.tensors:
        raise ModelError(f"{keys.file.path}: tensor 'token_embd.weight' is missing")
    scaling = _scaling(keys, head_dim)
    return DecoderSpec(
        architecture=keys.family,
        vocab_size=keys.file.tensors["token_embd.weight"].shape[0],
        hidden_size=hidden,
        intermediate_size=keys.whole("feed_forward_length"),
        layers=keys.whole("block_count"),
        heads=heads,
        kv_heads=keys.whole("attention.head_count_kv", heads),
        head_dim=head_dim,
        norm_eps=keys.real("attention.layer_norm_rms_epsilon"),
        qkv_bias=keys.has("blk.0.attn_q.bias"),
        output_bias=keys.has("blk.0.attn_output.bias"),
        mlp_bias=keys.has("blk.0.ffn_gate.bias"),
        qk_norm=keys.has("blk.0.attn_q_norm.weight"),
        tied=not keys.has("output.weight"),
        rope=RopeSpec(keys.real("rope.freq_base", 10000.0), head_dim, scaling),
        context_length=scaling.context_length(keys.whole("context_length")),
        eos_token_ids=_eos(keys.file),
    )


def _eos(file: GgufFile) -> tuple[int, ...]:
    ids = (file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot"))
    return as_ids(list(dict.fromkeys(index for index in ids if index is not None)), str(file.path))


def _scaling(keys: _Keys, head_dim: int) -> RopeScaling:
    kind = keys.get("rope.scaling.type", "none")
    if kind not in _READERS:
        raise ModelError(
            f"{keys.file.path}: rotary scaling {kind!r} is not supported; these are: {', '.join(_READERS)}"
        )
    stored = keys.file.tensors.get("rope_freqs.weight")
    if stored is None:
        return _READERS[kind](keys)
    if stored.shape != (head_dim // 2,) or stored.kind.name != "F32":
        raise ModelError(f"{keys.file.path}: tensor 'rope_freqs.weight' is not {head_dim // 2} float32 values")
    return Divisors(tuple(np.fromfile(keys.file.path, np.float32, head_dim // 2, offset=stored.offset).tolist()))


def _yarn(keys: _Keys) -> Yarn:
    factor = keys.real("rope.scaling.factor")
    return Yarn(
        factor=factor,
        trained_length=keys.whole("rope.scaling.original_context_length"),
        attention_factor=keys.real("rope.scaling.attn_factor", 1.0) * yarn_attention_factor(factor),
        beta_fast=keys.real("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.real("rope.scaling.yarn_beta_slow", 1.0),
    )


_READERS: dict[str, Callable[[_Keys], RopeScaling]] = {
    "none": lambda keys: Plain(),
    "linear": lambda keys: Linear(keys.real("rope.scaling.factor")),
    "yarn": _yarn,
}

"""The shape of a checkpoint, read without its weights."""

from __future__ import annotations

from pathlib import Path

from glimpse.errors import ArgumentError, ModelError
from glimpse.model.rope import RopeSpec
from glimpse.model.rope_scaling import Plain
from glimpse.model.spec import DecoderSpec

_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""Without weights to compare with, nobody would notice a default in the place of one of these."""
DEMO_SPEC = DecoderSpec(
    architecture="llama",
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    norm_eps=1e-5,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    qk_norm=False,
    tied=True,
    rope=RopeSpec(100000.0, 64, Plain()),
    context_length=8192,
    eos_token_ids=(2,),
)
"""SmolLM2-135M-Instruct, so that the demo model need not be there."""


def read_spec(model: str) -> DecoderSpec:
    """The spec of "demo", of a folder with a config.json (no weights needed), of a config.json, or of a GGUF file.

    Raises ArgumentError if there is none, ModelError if it is not supported.
    """
    if model == "demo":
        return DEMO_SPEC
    try:
        path = Path(model).expanduser()
        file, folder = path.is_file(), path.is_dir()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, nobody's home
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"model {model!r} cannot be looked up: {reason}") from error
    if file and path.suffix == ".gguf":
        from glimpse.model.gguf_config import spec_from_gguf
        from glimpse.model.weights.gguf_file import open_gguf

        return spec_from_gguf(open_gguf(path))
    from glimpse.model.hf_config import read_config, spec_from_config

    if file and path.name == "config.json":
        path, folder = path.parent, True
    if not folder:
        raise ArgumentError(f"no such model: {model} (expected 'demo', a folder with a config.json or a .gguf file)")
    raw, label = read_config(path), str(path / "config.json")
    found = spec_from_config(raw, label)
    missing = [name for name in _SIZES if name not in raw]
    if missing:
        raise ModelError(f"{label}: {', '.join(missing)} missing; filled in, they would be another model's")
    return found

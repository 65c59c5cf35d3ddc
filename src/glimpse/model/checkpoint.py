"""Loading a checkpoint: decoder, tokenizer and the defaults that come with them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glimpse.errors import ArgumentError, ModelError
from glimpse.model.build import Progress, build_decoder
from glimpse.model.decoder import Decoder
from glimpse.model.demo import Say, demo_model
from glimpse.model.hf_config import as_ids, read_config, read_json, spec_from_config
from glimpse.model.spec import DecoderSpec
from glimpse.model.tokenizer import Tokenizer, load_tokenizer
from glimpse.model.weights.safetensors import INDEX, SINGLE, SafetensorsWeights

_NOT_DEFAULTS = {"transformers_version", "_from_model_config", "bos_token_id", "pad_token_id", "use_cache", "cache_implementation"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model ready to run."""

    name: str
    decoder: Decoder
    tokenizer: Tokenizer
    generation_defaults: dict[str, Any]
    """What generation_config.json sets (temperature, top_k, do_sample, ...), under its own names; {} without one."""

    @property
    def spec(self) -> DecoderSpec:
        """The decoder's spec. Its `eos_token_ids` are those of config, generation config and tokenizer together."""
        return self.decoder.spec


def load_checkpoint(
    path: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu", progress: Progress | None = None
) -> Checkpoint:
    """Load a Hugging Face folder (safetensors) or a GGUF file.

    Weights are converted to `dtype` on `device`. `progress(done, total)` is called as parts of the model are ready.
    Raises ArgumentError if `path` is no checkpoint, ModelError if the checkpoint is broken or not supported.
    """
    if path.suffix == ".gguf":
        from glimpse.model.gguf_checkpoint import load_gguf

        return load_gguf(path, dtype=dtype, device=device, progress=progress)
    spec = spec_from_config(read_config(path), str(path / "config.json"))
    _refuse_pickles(path)
    defaults = generation_defaults(path)
    # Before the weights: a broken tokenizer should not cost a long load first.
    tokenizer = load_tokenizer(path)
    spec = with_eos(spec, as_ids(defaults.get("eos_token_id")), tokenizer)
    decoder = build_decoder(spec, SafetensorsWeights(path), dtype=dtype, device=device, progress=progress)
    return Checkpoint(path.resolve().name, decoder, tokenizer, defaults)


def with_eos(spec: DecoderSpec, ids: tuple[int, ...], tokenizer: Tokenizer) -> DecoderSpec:
    """The spec with every end-of-text id known from anywhere. Refuses a tokenizer larger than the model."""
    if tokenizer.vocab_size > spec.vocab_size:
        raise ModelError(
            f"the tokenizer has {tokenizer.vocab_size} tokens but the model only {spec.vocab_size}: "
            "they do not belong together"
        )
    union = sorted({*spec.eos_token_ids, *ids, *tokenizer.eos_token_ids})
    return dataclasses.replace(spec, eos_token_ids=tuple(union))


def generation_defaults(folder: Path) -> dict[str, Any]:
    """The settings of generation_config.json that are set; {} if there is no such file."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return {}
    return {key: value for key, value in read_json(path).items() if value is not None and key not in _NOT_DEFAULTS}


def _refuse_pickles(folder: Path) -> None:
    if (folder / SINGLE).is_file() or (folder / INDEX).is_file():
        return
    pickles = sorted(file.name for suffix in ("*.bin", "*.pt", "*.pth") for file in folder.glob(suffix))
    if pickles:
        raise ModelError(f"{folder}: weights in {pickles[0]} are pickled Python, which is not read; convert to safetensors")
    raise ModelError(f"{folder}: no weights; {SINGLE} or {INDEX} is missing")


def resolve_model(name: str | Path, *, say: Say | None = None) -> Path:
    """The folder or GGUF file that `name` stands for: "demo", or a path.

    The demo model is fetched if it is not in the cache yet; `say` is told in words what happens meanwhile.
    Raises ArgumentError if there is no such folder or file.
    """
    if str(name) == "demo":
        return demo_model(say=say)
    path = Path(name).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        return path
    if path.exists():
        raise ArgumentError(f"{path} is neither a model folder nor a .gguf file")
    raise ArgumentError(f"no such model: {name} (expected 'demo', a Hugging Face folder or a .gguf file)")

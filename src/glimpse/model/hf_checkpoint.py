"""Loading a Hugging Face folder as a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from glimpse.errors import ModelError
from glimpse.model.build import Consider, Progress, build_decoder
from glimpse.model.checkpoint import Checkpoint, with_eos
from glimpse.model.fingerprint import fingerprint
from glimpse.model.hf_config import as_ids, read_config, read_json, spec_from_config
from glimpse.model.tokenizer import load_tokenizer
from glimpse.model.weights.safetensors import INDEX, SINGLE, SafetensorsWeights

_GENERATION = "generation_config.json"
_NOT_DEFAULTS = {
    "transformers_version",
    "_from_model_config",
    "bos_token_id",
    "pad_token_id",
    "use_cache",
    "cache_implementation",
}
"""Entries of generation_config.json that say nothing about which token comes next."""


def load_folder(
    folder: Path,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    progress: Progress | None,
    consider: Consider | None,
) -> Checkpoint:
    """Load config.json, safetensors, tokenizer and generation_config.json; see `load_checkpoint`."""
    spec = spec_from_config(read_config(folder), str(folder / "config.json"))
    _refuse_pickles(folder)
    defaults = generation_defaults(folder)
    # Before the weights: a broken tokenizer should not cost a long load first.
    tokenizer = load_tokenizer(folder)
    spec = with_eos(spec, default_eos(folder, defaults), tokenizer)
    if consider:
        consider(spec)
    weights = SafetensorsWeights(folder)
    decoder = build_decoder(spec, weights, dtype=dtype, device=device, progress=progress)
    return Checkpoint(folder.resolve().name, decoder, tokenizer, defaults, fingerprint(spec, weights))


def generation_defaults(folder: Path) -> dict[str, Any]:
    """The settings of generation_config.json that are set; {} if there is no such file."""
    path = folder / _GENERATION
    if not path.is_file():
        return {}
    return {key: value for key, value in read_json(path).items() if value is not None and key not in _NOT_DEFAULTS}


def default_eos(folder: Path, defaults: Mapping[str, Any]) -> tuple[int, ...]:
    """The end-of-text ids among `generation_defaults(folder)`; ModelError if they are no ids."""
    return as_ids(defaults.get("eos_token_id"), str(folder / _GENERATION))


def _refuse_pickles(folder: Path) -> None:
    if (folder / SINGLE).is_file() or (folder / INDEX).is_file():
        return
    pickles = sorted(file.name for suffix in ("*.bin", "*.pt", "*.pth") for file in folder.glob(suffix))
    if pickles:
        raise ModelError(f"{folder}: {pickles[0]} is pickled Python, which is not read; convert it to safetensors")
    raise ModelError(f"{folder}: no weights; {SINGLE} or {INDEX} is missing")

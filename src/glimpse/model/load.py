"""From what a user names to a loaded checkpoint."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch

from glimpse.errors import ArgumentError
from glimpse.model.build import Consider, Progress
from glimpse.model.checkpoint import Checkpoint
from glimpse.model.demo import SAMPLING, Say, demo_model
from glimpse.model.gguf_checkpoint import load_gguf
from glimpse.model.hf_checkpoint import load_folder


def resolve_model(name: str | Path, *, say: Say | None = None) -> Path:
    """The folder or GGUF file that `name` stands for: "demo", or a path.

    The demo model is fetched if it is not in the cache yet; `say` is told in words what happens meanwhile.
    Raises ArgumentError if there is no such folder or file.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise ArgumentError(f"model must be 'demo', a Hugging Face folder or a .gguf file, not {name!r}")
    if str(name) == "demo":
        return demo_model(say=say)
    try:
        path = Path(name).expanduser()
        if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
            return path
        if path.exists():
            raise ArgumentError(f"{path} is neither a model folder nor a .gguf file")
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, nobody's home
        raise ArgumentError(
            f"model {name!r} cannot be looked up: {getattr(error, 'strerror', None) or error}"
        ) from error
    raise ArgumentError(f"no such model: {name} (expected 'demo', a Hugging Face folder or a .gguf file)")


def load_checkpoint(
    path: Path,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    consider: Consider | None = None,
) -> Checkpoint:
    """Load a Hugging Face folder (safetensors) or a GGUF file.

    Weights are converted to `dtype` on `device`. `consider(spec)` is called before they are read; `progress(done,
    total)` as parts of the model are ready.
    Raises ArgumentError if `path` is no checkpoint, ModelError if the checkpoint is broken or not supported.
    """
    load = load_gguf if path.suffix == ".gguf" else load_folder
    return load(path, dtype=dtype, device=device, progress=progress, consider=consider)


def open_model(
    name: str | Path,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    consider: Consider | None = None,
) -> Checkpoint:
    """What `name` stands for, loaded; "demo" brings sampling defaults, which its file does not hold."""
    checkpoint = load_checkpoint(resolve_model(name), dtype=dtype, device=device, progress=progress, consider=consider)
    if str(name) != "demo":
        return checkpoint
    return replace(checkpoint, generation_defaults={**SAMPLING, **checkpoint.generation_defaults})

"""Safetensors checkpoints: one file, or shards listed by an index."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glimpse.errors import ModelError
from glimpse.model.embedding import Bytes, FileRows

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a tensor lies: file, dtype code, shape, first byte."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class SafetensorsWeights:
    """A `WeightSource` over a folder.

    A file is mapped anew for each tensor and unmapped when that is dropped, so pages already read do not count as
    memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, Entry] = {}
        self._shard_of: dict[str, Path] = {}
        if (folder / INDEX).is_file():
            self._shard_of = _read_index(folder)
            files = sorted(set(self._shard_of.values()))
        else:
            files = [folder / SINGLE]
        for file in files:
            self._entries.update(_read_header(file))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def where(self, name: str) -> str:
        entry = self._entries.get(name)
        return str(entry.path if entry else self._shard_of.get(name, self._folder / SINGLE))

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name].shape

    def tensor(self, name: str) -> Tensor:
        entry = self._entries[name]
        _dtype(entry, name)
        try:
            with safe_open(entry.path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise ModelError(f"{entry.path}: tensor {name!r} cannot be read: {error}") from error
        return tensor

    def rows(self, name: str) -> FileRows:
        entry = self._entries[name]
        dtype = _dtype(entry, name)
        count, width = entry.shape

        def decode(raw: Bytes) -> Tensor:
            return torch.from_numpy(raw).view(dtype)

        return FileRows(entry.path, entry.offset, (count, width), width * dtype.itemsize, decode)


def _dtype(entry: Entry, name: str) -> torch.dtype:
    if entry.dtype not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise ModelError(f"{entry.path}: tensor {name!r} has dtype {entry.dtype}; these can be read: {known}")
    return _DTYPES[entry.dtype]


def _read_index(folder: Path) -> dict[str, Path]:
    path = folder / INDEX
    try:
        names: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        shards = {name: folder / file for name, file in names.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a safetensors index with a 'weight_map' ({error})") from error
    for name, shard in shards.items():
        if names[name] != shard.name:
            raise ModelError(f"{path}: names {shard} for tensor {name!r}; shards must lie beside the index")
        if not shard.is_file():
            raise ModelError(f"{path}: shard {shard.name} (tensor {name!r}) is missing; download the checkpoint again")
    return shards


def _read_header(path: Path) -> dict[str, Entry]:
    try:
        # The library checks the header against the file's length (truncation, overlaps, gaps) and names what is wrong.
        with safe_open(path, framework="pt"):
            pass
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(size))
    except (SafetensorError, OSError, ValueError) as error:
        bytes_there = os.path.getsize(path) if path.exists() else 0
        raise ModelError(f"{path}: not a whole safetensors file ({bytes_there} bytes): {error}") from error
    return {
        name: Entry(path, item["dtype"], tuple(item["shape"]), 8 + size + item["data_offsets"][0])
        for name, item in header.items()
        if name != "__metadata__"
    }

"""How much of the machine an LLM takes: checked before a checkpoint is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from glimpse.errors import ArgumentError
from glimpse.sampling.checks import Integer, refuse, shown, text
from glimpse.sampling.params import CHECKS

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_AUTO = {"cpu": torch.float32, "cuda": torch.bfloat16}
"""The dtype that is fastest without changing what is written by more than rounding."""
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_MOST = 1 << 40
"""No machine has memory for it; beyond, sums of bytes are no numbers that can be written out."""
_THREADS_A_PROCESSOR = 4
"""More threads than this for each processor are a slip, and many more cannot even be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """The options of `LLM` that do not change what is written, but for the dtype's rounding and the seed.

    Raises ArgumentError for a value of a wrong type or out of range.
    """

    dtype: str
    device: str
    max_context: int | None
    max_batch_size: int
    threads: int | None
    seed: int | None

    def __post_init__(self) -> None:
        if text("dtype", self.dtype) not in ("auto", *_DTYPES):
            raise ArgumentError(f"unknown dtype {shown(self.dtype)}; known: auto, {', '.join(_DTYPES)}")
        if not _DEVICE.fullmatch(text("device", self.device)):
            raise ArgumentError(f"unknown device {shown(self.device)}; known: auto, cpu, cuda, cuda:0, cuda:1, ...")
        numbers: Mapping[str, Callable[[str, Any], Any]] = {
            "max_context": _size,
            "max_batch_size": _size,
            "threads": _threads(),
            "seed": CHECKS["seed"],
        }
        for name, check in numbers.items():
            value = getattr(self, name)
            if value is not None or name == "max_batch_size":
                object.__setattr__(self, name, check(name, value))

    def dtype_on(self, device: torch.device) -> torch.dtype:
        """The dtype of weights and cache there."""
        return _AUTO[device.type] if self.dtype == "auto" else _DTYPES[self.dtype]


def _size(name: str, value: Any) -> int:
    size = Integer(1)(name, value)
    if size > _MOST:
        raise refuse(name, value, f"at most {_MOST}")
    return size


def _threads() -> Integer:
    return Integer(1, _THREADS_A_PROCESSOR * (os.cpu_count() or 1))

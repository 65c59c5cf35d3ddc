"""How much of the machine an LLM takes: checked before a checkpoint is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from glimpse.errors import ArgumentError
from glimpse.sampling.checks import Integer, shown, text
from glimpse.sampling.params import CHECKS

_DTYPES = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
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
        if text("dtype", self.dtype) not in _DTYPES:
            raise ArgumentError(f"unknown dtype {shown(self.dtype)}; known: {', '.join(_DTYPES)}")
        if text("device", self.device) not in ("auto", "cpu"):
            raise ArgumentError(f"device {shown(self.device)} is not supported by this version; use auto or cpu")
        numbers: Mapping[str, Callable[[str, Any], Any]] = {
            "max_context": Integer(1),
            "max_batch_size": Integer(1),
            "threads": Integer(1, _THREADS_A_PROCESSOR * (os.cpu_count() or 1)),
            "seed": CHECKS["seed"],
        }
        for name, check in numbers.items():
            value = getattr(self, name)
            if value is not None or name == "max_batch_size":
                object.__setattr__(self, name, check(name, value))

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of weights and cache."""
        return _DTYPES[self.dtype]

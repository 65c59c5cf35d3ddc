"""Which device a model runs on: the one asked for, or the GPU where there is one that can really be used."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from glimpse.errors import ArgumentError

LEAST_CAPABILITY = (8, 0)
"""The kernels need bfloat16 matrix products (Ampere)."""
_DRIVER_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0")
_HIDDEN = ("", "-1")
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU."""


class DeviceWarning(UserWarning):
    """There is a GPU, but it cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs, and why there."""

    device: torch.device
    reason: str
    warn: bool = False
    """There is a GPU that cannot be used: worth a line."""


def place(asked: str) -> Place:
    """The device for "auto", "cpu", "cuda" or "cuda:N"; "auto" is the GPU where one can be used.

    Raises ArgumentError where a GPU is asked for that cannot be used, saying why.
    """
    if asked == "cpu":
        return Place(torch.device("cpu"), "asked for")
    index = int(asked.partition(":")[2] or _current())
    trouble = trouble_of(index)
    if trouble is None:
        return Place(torch.device("cuda", index), "asked for" if asked != "auto" else "a GPU that can be used")
    if asked != "auto":
        raise ArgumentError(f"device {asked!r} cannot be used: {trouble}; use auto or cpu")
    if not has_gpu():
        return Place(torch.device("cpu"), "no NVIDIA GPU")
    return Place(torch.device("cpu"), f"the GPU cannot be used: {trouble}", warn=True)


def trouble_of(index: int) -> str | None:
    """What keeps CUDA device `index` from being used, in words; None if a small product on it comes out right."""
    if not has_gpu():
        return "there is no NVIDIA GPU here"
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of an old driver torch warns too, at length.
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            return _lack(index) or _trial(torch.device("cuda", index))
        except (RuntimeError, AssertionError) as error:
            return _first_sentence(error)


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU that is not hidden on purpose, usable or not."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in _HIDDEN:
        return False
    return torch.cuda.device_count() > 0 or any(Path(file).exists() for file in _DRIVER_FILES)


def _current() -> int:
    return torch.cuda.current_device() if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]


def _lack(index: int) -> str | None:
    count = torch.cuda.device_count()
    if index >= count:
        return f"the only one is cuda:{count - 1}" if count == 1 else f"there are cuda:0 to cuda:{count - 1}"
    capability = torch.cuda.get_device_capability(index)
    if capability < LEAST_CAPABILITY:
        name, have, need = torch.cuda.get_device_name(index), _dotted(capability), _dotted(LEAST_CAPABILITY)
        return f"{name} has compute capability {have}, and {need} is the least"
    if find_spec("triton") is None:
        return "Triton, which its kernels are written in, is not installed"
    return None


def _trial(device: torch.device) -> str | None:
    ones = torch.ones(4, 4, device=device)
    found = float((ones @ ones).sum())
    return None if found == 64 else f"a product of ones came out as {found:g} instead of 64"


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _first_sentence(error: Exception) -> str:
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line.partition(". ")[0].rstrip(".")

"""What a device can do at best, measured: memory bandwidth and the rate of matrix products."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from torch import Tensor

_COPIED = {"cuda": 2 * 2**30, "cpu": 128 * 2**20}
"""Bytes of the tensor that is read: far more than any cache holds."""
_SIDE = {"cuda": 8192, "cpu": 1024}
"""Side of the square matrices."""


@torch.inference_mode()
def bandwidth(device: torch.device, repeats: int = 5) -> float:
    """Bytes per second of a large copy (read and written) or a large sum (read), whichever is more."""
    count = _COPIED[device.type] // 4
    source, target = torch.ones(count, device=device), torch.empty(count, device=device)
    copied = 8 * count / _best(lambda: target.copy_(source), device, repeats)
    return max(copied, 4 * count / _best(source.sum, device, repeats))


@torch.inference_mode()
def rate(device: torch.device, dtype: torch.dtype, repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix product in `dtype`."""
    side = _SIDE[device.type]
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    return 2 * side**3 / _best(lambda: a @ b, device, repeats)


def memory(device: torch.device) -> int:
    """Bytes of memory the device has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _best(action: Callable[[], Tensor], device: torch.device, repeats: int) -> float:
    """Least seconds of several runs, after one to warm up: what the device can do, not what it shares."""
    times = []
    for _ in range(repeats + 1):
        _settle(device)
        started = time.perf_counter()
        action()
        _settle(device)
        times.append(time.perf_counter() - started)
    return min(times[1:])


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

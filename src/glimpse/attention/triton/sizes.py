"""Sizes that launches need."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LANES = 32
"""Threads of a warp: a block of fewer numbers saves nothing, and each size is a kernel of its own."""


def padded(count: int, least: int = 1) -> int:
    """The least power of two that is at least `count` and `least`: what a block's side must be."""
    return max(least, 1 << max(0, count - 1).bit_length())


def stepped(count: int, steps: tuple[int, ...] = (16, 64)) -> int:
    """The least of a few powers of two that is at least `count`, `padded` where it is more than all: a kernel for which
    a larger block costs nothing is compiled for few."""
    return next((step for step in steps if step >= count), padded(count))


def parted(
    parts: int, count: int, dtype: torch.dtype, device: torch.device | str, make: Callable[..., Tensor] = torch.empty
) -> tuple[Tensor, ...]:
    """`parts` tensors [count] in one block, each at a multiple of 16 bytes.

    Triton compiles a kernel anew for addresses that are none, so that without it the number of rows would matter.
    """
    grain = max(1, 16 // dtype.itemsize)
    return make(parts, -(-count // grain) * grain, dtype=dtype, device=device)[:, :count].unbind()


def processors(device: torch.device) -> int:
    """Streaming multiprocessors of the device; 132, an H200's, for the interpreter."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def links(device: torch.device) -> bool:
    """Whether kernels can be launched programmatically dependent on one another: capability 9.0 or more."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)

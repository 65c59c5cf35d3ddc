"""Sizes that launches need."""

from __future__ import annotations

import torch


def padded(count: int, least: int = 1) -> int:
    """The least power of two that is at least `count` and `least`: what a block's side must be."""
    return max(least, 1 << max(0, count - 1).bit_length())


def processors(device: torch.device) -> int:
    """Streaming multiprocessors of the device; 132, an H200's, for the interpreter."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def links(device: torch.device) -> bool:
    """Whether kernels can be launched programmatically dependent on one another: capability 9.0 or more."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)

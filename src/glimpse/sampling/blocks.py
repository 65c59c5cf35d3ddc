"""How many rows of a [N, V] tensor to handle at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch

_CACHED = 1 << 16
"""Elements on a CPU: temporaries that fit its second-level cache halve the time of a large batch."""


def blocks(rows: int, width: int, device: torch.device) -> Iterator[slice]:
    """Slices of `rows` rows of `width` elements: a few at a time on a CPU, all at once on a GPU. At least one slice."""
    size = max(1, _CACHED // width) if device.type == "cpu" else max(1, rows)
    return (slice(start, start + size) for start in range(0, max(1, rows), size))

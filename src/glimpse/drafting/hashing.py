"""Hashing (node, token) for the host structures' open-addressing tables."""

from __future__ import annotations

import numpy as np

from glimpse.drafting.compiled import compiled


@compiled
def bucket_of(node: int, token: int, mask: int) -> int:
    """Where among `mask` + 1 (a power of two) buckets the search for the edge of `node` by `token` begins."""
    mixed = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(token) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return int(np.int64(mixed >> np.uint64(32)) & mask)

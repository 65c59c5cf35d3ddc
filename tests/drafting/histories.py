"""Rows that hold nothing but texts, for drafters that read histories."""

from __future__ import annotations

import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence

POOL = PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)


def rows_of(*texts: list[int]) -> RowView:
    """One row a text, in the order given."""
    rows = Rows(len(texts), 4096, 32)
    for slot, text in enumerate(texts):
        rows.open(slot, list(text), Sequence(POOL), 4096)
    return RowView(rows, tuple(range(len(texts))))

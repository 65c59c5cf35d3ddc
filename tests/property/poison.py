"""Makes every read of what is nobody's visible: whatever is free, taken anew or rolled back holds NaN.

One NaN in a key or value that a query reads makes its logits NaN, which ends the request; so a text that comes out
right has read nothing but its own verified positions, and those of its own draft.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from glimpse.cache.pool import PagePool
from glimpse.engine.engine import Engine


@contextmanager
def poisoned(pool: PagePool) -> Iterator[None]:
    """While the block runs, pages hold NaN from when they are free for good until they are written."""
    allocate, release, blank = PagePool.allocate, PagePool.release, PagePool.blank

    def taken(self: PagePool, count: int, start: int) -> list[int]:
        pages = allocate(self, count, start)
        spoil(self, pages)
        return pages

    def given_back(self: PagePool, pages: list[int]) -> None:
        release(self, pages)
        spoil(self, [page for page in pages if self._references[page] == 0 and self._used[page] == 0])

    def forgotten(self: PagePool, pages: list[int]) -> None:
        blank(self, pages)
        spoil(self, [page for page in pages if self._references[page] == 0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagePool, "allocate", taken)
        patch.setattr(PagePool, "release", given_back)
        patch.setattr(PagePool, "blank", forgotten)
        yield
    # What is remembered of prompts stays: it is right.
    free = [page for page in range(pool.pages) if pool._references[page] == 0 and pool._used[page] == 0]
    mend(pool, free)


def spoil(pool: PagePool, pages: list[int]) -> None:
    """NaN in whole pages."""
    _fill(pool, pages, float("nan"))


def mend(pool: PagePool, pages: list[int]) -> None:
    """Zeros in whole pages."""
    _fill(pool, pages, 0.0)


def _fill(pool: PagePool, pages: list[int], value: float) -> None:
    size = pool.page_size
    slots = [page * size + place for page in pages for place in range(size)]
    for held in (pool.keys, pool.values):
        held[:, :, slots] = value


def spoil_what_was_rolled_back(engine: Engine) -> None:
    """NaN behind the verified positions of all rows that have no draft in the making."""
    rows, pool = engine.parts.rows, engine.parts.pool
    for slot, sequence in enumerate(rows.sequences):
        if sequence is None or int(rows.draft_len[slot]):
            continue
        begin = max(int(rows.verified_len[slot]), sequence.shared_len)
        slots = sequence.slots_of(torch.arange(begin, sequence.capacity))
        for held in (pool.keys, pool.values):
            held[:, :, slots] = torch.nan

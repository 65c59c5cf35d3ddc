"""The paged pool of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glimpse.errors import ArgumentError


class OutOfPages(Exception):
    """The pool has fewer free pages than were asked for; nothing was taken."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What one position of the cache holds."""

    layers: int
    kv_heads: int
    head_dim: int

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        """Bytes of keys and values of one position over all layers."""
        return self.layers * 2 * self.kv_heads * self.head_dim * dtype.itemsize


class PagePool:
    """Fixed pages of keys and values, counted by reference.

    A page that nobody holds is free; what stands in it may be remembered all the same, until the page is taken again.
    The pages used longest ago are taken first. `keys` and `values` are [layers, kv_heads, pages * page_size, head_dim]:
    each head's positions lie together, so that consecutive pages of one sequence can be read as one view. Memory is
    touched only where pages are used.
    """

    def __init__(
        self, shape: CacheShape, pages: int, page_size: int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> None:
        if pages < 1 or page_size < 1:
            raise ArgumentError(f"a cache of {pages} pages of {page_size} tokens is empty; both must be at least 1")
        size = (shape.layers, shape.kv_heads, pages * page_size, shape.head_dim)
        self.shape, self.pages, self.page_size = shape, pages, page_size
        self.keys = torch.empty(size, dtype=dtype, device=device)
        self.values = torch.empty(size, dtype=dtype, device=device)
        self.promised = 0
        """Pages that living sequences may still take beyond those they hold, in whatever engine."""
        self.overwriting: Callable[[list[int]], None] = lambda pages: None
        """Told of pages that were remembered and are taken for something else."""
        self._used = np.zeros(pages, dtype=np.int64)
        """When the content of each page was last of use; 0: it is none."""
        self._clock = 0
        self._references = np.zeros(pages, dtype=np.int32)
        self._wished = np.zeros(pages, dtype=np.int32)

    @property
    def device(self) -> torch.device:
        """Where the pages are."""
        return self.keys.device

    @property
    def free_pages(self) -> int:
        """Pages that nobody holds."""
        return int((self._references == 0).sum())

    @property
    def spare_pages(self) -> int:
        """Free pages that no living sequence will come to need."""
        return self.free_pages - self.promised

    def pages_for(self, tokens: int) -> int:
        """Pages that hold `tokens` positions."""
        return -(-tokens // self.page_size)

    def held(self, pages: list[int]) -> int:
        """How many of these pages somebody holds."""
        return int((self._references[pages] > 0).sum()) if pages else 0

    def remember(self, pages: list[int]) -> None:
        """Notes that the content of these pages was of use now, of the first ones last."""
        self._clock += len(pages)
        self._used[pages] = self._clock - np.arange(len(pages))

    def blank(self, pages: list[int]) -> None:
        """Notes that the content of these pages is of no use."""
        self._used[pages] = 0

    def wish(self, count: int, after: int | None = None) -> int:
        """A page from which `count` pages in a row are free and unwished for, or the longest such run's first page.

        Right behind page `after` if nothing is remembered there, else where the last use is longest ago. Marks the run,
        so that other sequences take theirs elsewhere while there is room: a sequence whose pages lie together is read
        without a copy. It is only a wish; `unwish` gives it up.
        """
        there = (self._references == 0) & (self._wished == 0)
        if after is not None and (there & (self._used == 0))[after + 1 : after + 1 + count].sum() == count:
            start, length = after + 1, count
        else:
            start, length = _oldest_run(there, self._used, count)
        self._wished[start : start + min(count, length)] += 1
        return start

    def unwish(self, start: int, count: int) -> None:
        """Gives up what `wish(count)` marked from page `start` on."""
        marked = self._wished[start : start + count]
        marked[marked > 0] -= 1

    def allocate(self, count: int, start: int) -> list[int]:
        """Takes `count` free pages, those from page `start` on first. Raises OutOfPages and takes none if too few."""
        free = np.flatnonzero(self._references == 0)
        if len(free) < count:
            raise OutOfPages(f"{count} pages asked for, {len(free)} free")
        ahead = (free >= start) & (free < start + count)
        if ahead.sum() == count:
            taken = free[ahead]
        else:
            order = np.lexsort((free, self._used[free], self._wished[free] > 0, ~ahead))
            taken = np.sort(free[order[:count]])
        self._references[taken] = 1
        if self._used[taken].any():
            self.overwriting([int(page) for page in taken[self._used[taken] > 0]])
            self._used[taken] = 0
        return [int(page) for page in taken]

    def retain(self, pages: list[int]) -> None:
        """Adds one holder to each page (sharing)."""
        np.add.at(self._references, pages, 1)

    def release(self, pages: list[int]) -> None:
        """Drops one holder of each page; a page without holders is free."""
        if len(pages) and (self._references[pages] <= 0).any():
            raise AssertionError("a page was released more often than it was taken")
        np.subtract.at(self._references, pages, 1)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores keys and values [N, kv_heads, head_dim] of one layer at `slots` [N] (page * page_size + offset)."""
        self.keys[layer].index_copy_(1, slots, keys.transpose(0, 1))
        self.values[layer].index_copy_(1, slots, values.transpose(0, 1))

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copies the keys and values at slots `source` [M] to slots `target` [M] in every layer (they may overlap)."""
        self.keys[:, :, target] = self.keys[:, :, source]
        self.values[:, :, target] = self.values[:, :, source]


def _oldest_run(free: np.ndarray, used: np.ndarray, wanted: int) -> tuple[int, int]:
    """(start, length) of the first run of `wanted` free pages whose last use is longest ago, else of the longest."""
    best = _first_run(free & (used == 0), wanted)
    if best[1] >= wanted:
        return best
    best, ages = _first_run(free, wanted), np.unique(used[free])
    low, high = 0, len(ages) - 1
    while low < high and best[1] >= wanted:
        middle = (low + high) // 2
        run = _first_run(free & (used <= ages[middle]), wanted)
        if run[1] >= wanted:
            best, high = run, middle
        else:
            low = middle + 1
    return best


def _first_run(free: np.ndarray, wanted: int) -> tuple[int, int]:
    """(start, length) of the first run of True of at least `wanted`, else of the longest; (0, 0) if none is True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], free, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    enough = np.flatnonzero(lengths >= wanted)
    best = int(enough[0]) if len(enough) else int(lengths.argmax())
    return int(starts[best]), int(lengths[best])

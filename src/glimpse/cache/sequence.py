"""One request's page table."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from glimpse.cache.pool import OutOfPages, PagePool


class Sequence:
    """Maps the positions of one request to slots of the pool; grows for drafts and gives the surplus back.

    `expected` is the length (tokens) it may reach: the pages for it are kept together if possible, and promised to it,
    or only those for `promised` tokens. `shared` are pages of a common prefix, already holding verified keys and
    values; they are never written.
    """

    def __init__(
        self, pool: PagePool, expected: int = 0, shared: list[int] | None = None, promised: int | None = None
    ) -> None:
        self.pool = pool
        self.pages: list[int] = list(shared or [])
        self.shared_len = len(self.pages) * pool.page_size
        pool.retain(self.pages)
        self._wish = max(1, pool.pages_for(expected) - len(self.pages))
        self._first = pool.wish(self._wish, self.pages[-1] if self.pages else None)
        self._own = self._promise = 0
        self._account(0, self._private(expected if promised is None else promised))

    @property
    def capacity(self) -> int:
        """Positions that the pages held can take."""
        return len(self.pages) * self.pool.page_size

    def promise(self, length: int) -> None:
        """Promises it the pages for `length` positions. Raises OutOfPages, changing nothing, if they are not spare."""
        wanted = self._private(length)
        more = max(0, wanted - max(self._own, self._promise))
        if more > self.pool.spare_pages:
            raise OutOfPages(f"{more} pages asked for, {self.pool.spare_pages} spare")
        self._account(self._own, max(wanted, self._promise))

    def reserve(self, length: int) -> None:
        """Takes pages until `length` positions fit. Raises OutOfPages and takes none if the pool has too few."""
        missing = self.pool.pages_for(length) - len(self.pages)
        if missing > 0:
            self.pages += self.pool.allocate(missing, self._first + self._own)
            self._account(self._own + missing, self._promise)

    def truncate(self, length: int) -> None:
        """Gives back the pages beyond `length` positions. Shared pages stay."""
        keep = max(self.pool.pages_for(length), self.shared_len // self.pool.page_size)
        surplus = self.pages[keep:]
        if surplus:
            del self.pages[keep:]
            self._account(self._own - len(surplus), self._promise)
            self.pool.release(surplus)

    def release(self) -> None:
        """Gives everything back. The sequence is empty afterwards and may be used again."""
        self.pool.release(self.pages)
        self.pool.unwish(self._first, self._wish)
        self._account(0, 0)
        self.pages, self._wish, self.shared_len = [], 0, 0

    def _private(self, length: int) -> int:
        """Pages of its own that `length` positions take."""
        return max(0, self.pool.pages_for(length) - self.shared_len // self.pool.page_size)

    def _account(self, own: int, promise: int) -> None:
        """Notes pages taken and pages promised, and tells the pool what may still be taken."""
        self.pool.promised += max(0, promise - own) - max(0, self._promise - self._own)
        self._own, self._promise = own, promise

    def slots(self, start: int, stop: int) -> Tensor:
        """[stop - start] int64: the slots of positions start up to stop."""
        if start < self.shared_len:
            raise AssertionError(f"position {start} lies in shared pages, which end at {self.shared_len}")
        return self.slots_of(torch.arange(start, stop))

    def slots_of(self, positions: Tensor) -> Tensor:
        """The slots of any positions (any shape, int64), shared ones included."""
        size = self.pool.page_size
        table = torch.tensor(self.pages, dtype=torch.int64, device=positions.device)
        return table[positions // size] * size + positions % size

    def extents(self, start: int, stop: int) -> list[tuple[int, int]]:
        """(first slot, count) of the runs of consecutive slots that hold positions start up to stop."""
        size, first, last = self.pool.page_size, start // self.pool.page_size, self.pool.pages_for(stop)
        if last <= first:
            return []
        pages = np.array(self.pages[first:last], dtype=np.int64)
        begins = np.flatnonzero(np.diff(pages, prepend=-2) != 1)  # where a page does not follow the one before
        slots, counts = pages[begins] * size, np.diff(begins, append=len(pages)) * size
        slots[0], counts[0] = slots[0] + start % size, counts[0] - start % size
        counts[-1] -= last * size - stop
        return list(zip(slots.tolist(), counts.tolist(), strict=True))

"""Draft trees made on the host: nothing is in flight while they are, and verification follows at once."""

from __future__ import annotations

import numpy as np
import torch

from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.pace import Move
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_planner import TreePlanner
from glimpse.engine.device.tree_shapes import copy_out
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.parts import Parts


class HostTrees:
    """Asks pacer and drafter as the eager engine does, and hands their trees to the device."""

    def __init__(self, parts: Parts, core: Core, trees: TreeState) -> None:
        self._parts, self._core, self._trees = parts, core, trees
        # A mask has a bit for each token of a row.
        self._planner = TreePlanner(parts, core.rows.most)
        self._lent: list[tuple[Sequence, int]] = []
        """Sequences that took pages for their nodes only, and how many positions they had before."""

    def next(self, seats: list[Seat], *, plain: bool = False) -> TreeMove:
        """The next verification; nothing of these rows is unread. `plain`: of no draft."""
        view = RowView(self._parts.rows, tuple(seat.slot for seat in seats))
        had = [len(seat.sequence.pages) for seat in seats]
        counts = self._planner.plan({seat.slot: seat.request for seat in seats}, plain=plain)
        for row, (seat, have) in enumerate(zip(seats, had, strict=True)):
            if len(seat.sequence.pages) > have:
                self._lend(row, seat.sequence, have)
        return self._put(view, counts)

    def skip(self, seats: list[Seat]) -> Move:
        """See `HostDrafts.skip`."""
        self._planner.drop([seat.slot for seat in seats])
        return Move(0, verifies=True)

    def landed(self) -> None:
        """Gives back the pages of nodes whose verification has been read."""
        for sequence, length in self._lent:
            sequence.truncate(length)
        self._lent.clear()

    def _lend(self, row: int, sequence: Sequence, have: int) -> None:
        more, table = sequence.pages[have:], self._core.rows.table
        table[row, have : have + len(more)] = upload(torch.tensor(more, dtype=torch.int32), table.device)
        self._lent.append((sequence, have * sequence.pool.page_size))

    def _put(self, view: RowView, counts: list[int]) -> TreeMove:
        """Hands the rows' trees over."""
        own, rows = view.rows.arrays, len(view)
        fed, depths = np.empty(sum(counts) + rows, np.int64), np.empty(rows, np.int64)
        copy_out(
            view.index, own.tokens, own.committed, own.counts, own.parents, self._trees.sheet, fed, depths
        )  # fmt: skip
        self._trees.put(rows)
        return TreeMove(tuple(counts), tuple(depths.tolist()), fed)

"""Draft trees made on the host: nothing is in flight while they are, and verification follows at once."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glimpse.cache.sequence import Sequence
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.pace import Move
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_planner import TreePlanner
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
        slots = [seat.slot for seat in seats]
        had = [len(seat.sequence.pages) for seat in seats]
        counts, depths = self._planner.plan({seat.slot: seat.request for seat in seats}, plain=plain)
        for row, (seat, have) in enumerate(zip(seats, had, strict=True)):
            if len(seat.sequence.pages) > have:
                self._lend(row, seat.sequence, have)
        fed = self._put(slots, counts)
        return TreeMove(tuple(counts.tolist()), tuple(depths.tolist()), fed)

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

    def _put(self, slots: list[int], counts: NDArray[np.int64]) -> Tensor:
        """Hands the rows' trees over; returns the tokens that the step feeds, row after row."""
        host, most = self._parts.rows, self._core.rows.most
        lasts = host.committed_len.numpy()[slots] - 1
        places = lasts[:, None] + np.arange(most + 1)
        tokens = host.tokens.numpy()[np.array(slots)[:, None], places.clip(max=host.width - 1)]
        parents = host.draft_parents.numpy()[slots, :most]
        self._trees.put(torch.from_numpy(tokens[:, 1:]), torch.from_numpy(parents), torch.from_numpy(counts))
        return torch.from_numpy(tokens[np.arange(most + 1) <= counts[:, None]])

"""Draft trees made on the host: nothing is in flight while they are, and verification follows at once."""

from __future__ import annotations

import numpy as np
import torch

from glimpse.cache.sequence import Sequence
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.parts import Parts
from glimpse.engine.phases import PhasePlanner


class HostTrees:
    """Asks pacer and drafter as the eager engine does, and hands their trees to the device."""

    def __init__(self, parts: Parts, core: Core, trees: TreeState) -> None:
        self._parts, self._core, self._trees = parts, core, trees
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer, parts.sampler.vocab_size)
        self._lent: list[tuple[Sequence, int]] = []
        """Sequences that took pages for their nodes only, and how many positions they had before."""

    def next(self, seats: list[Seat], *, plain: bool = False) -> TreeMove:
        """The next verification; nothing of these rows is unread. `plain`: of no draft."""
        rows, slots = self._parts.rows, [seat.slot for seat in seats]
        for slot in slots:
            rows.drop_draft(slot)
        had = [len(seat.sequence.pages) for seat in seats]
        if not plain:
            self._planner.plan({seat.slot: seat.request for seat in seats})
            # A mask has a bit for each token of a row; a tree's first nodes are its likeliest.
            rows.draft_len[slots] = rows.draft_len[slots].clamp(max=self._core.rows.most)
        for row, (seat, have) in enumerate(zip(seats, had, strict=True)):
            self._lend(row, seat.sequence, have)
        drafted = rows.draft_len[slots]
        self._put(slots, drafted)
        return TreeMove(tuple(drafted.tolist()))

    def landed(self) -> None:
        """Gives back the pages of nodes whose verification has been read."""
        for sequence, length in self._lent:
            sequence.truncate(length)
        self._lent.clear()

    def _lend(self, row: int, sequence: Sequence, have: int) -> None:
        more = sequence.pages[have:]
        if more:
            table = self._core.rows.table
            table[row, have : have + len(more)] = upload(torch.tensor(more, dtype=torch.int32), table.device)
            self._lent.append((sequence, have * sequence.pool.page_size))

    def _put(self, slots: list[int], drafted: torch.Tensor) -> None:
        host, most, index = self._parts.rows, self._core.rows.most, np.array(slots)
        places = host.committed_len.numpy()[index][:, None] + np.arange(most)
        tokens = host.tokens.numpy()[index[:, None], places.clip(max=host.width - 1)]
        parents = host.draft_parents.numpy()[index, :most]
        self._trees.put(torch.from_numpy(tokens), torch.from_numpy(parents), drafted)

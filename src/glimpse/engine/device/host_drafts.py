"""Drafts made on the host: nothing is in flight while they are, and verification follows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.pace import Move
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.state import DeviceRows
from glimpse.engine.parts import Parts
from glimpse.engine.phases import PhasePlanner, StepPlan
from glimpse.engine.riding import Riders

if TYPE_CHECKING:
    from glimpse.engine.device.host_trees import HostTrees


class HostDrafts:
    """Asks pacer and drafter as the eager engine does, and puts the drafts into the device's rows."""

    def __init__(self, parts: Parts, rows: DeviceRows, riders: Riders | None = None) -> None:
        """`riders`: for a drafter whose mask tokens ride on the rows."""
        self._parts, self._rows = parts, rows
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer, parts.sampler.vocab_size, riders)

    def next(self, seats: list[Seat], *, plain: bool = False) -> Move | BlockMove:
        """The next verification; nothing of these rows is unread. `plain`: of no draft."""
        return self.skip(seats) if plain else Move(0, verifies=True, drafted=self._draft(seats)[1])

    def _draft(self, seats: list[Seat]) -> tuple[StepPlan, int]:
        """The rows' plan, whose drafts are on the device now, and the tokens of the longest."""
        rows, slots = self._parts.rows, [seat.slot for seat in seats]
        rows.draft_len[slots] = 0
        plan = self._planner.plan({seat.slot: seat.request for seat in seats})
        drafted = rows.draft_len[slots]
        most = int(drafted.max())
        if most:
            self._put(slots, drafted, most)
        return plan, most

    def skip(self, seats: list[Seat]) -> Move:
        """A plain step that nobody is asked for; what came before may be unread."""
        self._parts.rows.draft_len[[seat.slot for seat in seats]] = 0
        return Move(0, verifies=True)

    def landed(self) -> None:
        """What was launched has been read: nothing was lent to it."""

    def _put(self, slots: list[int], drafted: torch.Tensor, most: int) -> None:
        host, device, count = self._parts.rows, self._rows, len(slots)
        begins = host.committed_len[slots].numpy()
        places = begins[:, None] + np.arange(most)
        # Behind a row's own draft stands what nobody will read.
        tokens = torch.from_numpy(host.tokens.numpy()[np.array(slots)[:, None], places])
        where = device.tokens.device
        device.tokens[:count].scatter_(1, upload(torch.from_numpy(places), where), upload(tokens, where))
        device.drafted[:count] = upload(drafted.to(torch.int32), where)


def host_drafts(parts: Parts, core: Core) -> HostDrafts | HostTrees:
    """What makes the drafts of these parts: trees where the rows have room for them, blocks where masks ride."""
    if core.blocks is not None:
        from glimpse.engine.device.host_blocks import HostBlocks

        return HostBlocks(parts, core.rows, core.blocks)
    if core.trees is None:
        return HostDrafts(parts, core.rows)
    from glimpse.engine.device.host_trees import HostTrees  # imports numba

    return HostTrees(parts, core, core.trees)

"""Blocks that mask tokens on the device have drafted: paced on the host, verified at once, their masks riding along."""

from __future__ import annotations

from glimpse.drafting.drafter import rider_of
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.host_drafts import HostDrafts
from glimpse.engine.device.pace import Move
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.state import DeviceRows
from glimpse.engine.parts import Parts
from glimpse.engine.riding import Riders


class HostBlocks(HostDrafts):
    """Asks pacer and drafter as the eager engine does, and which groups ride on the verification."""

    def __init__(self, parts: Parts, rows: DeviceRows, blocks: BlockState) -> None:
        rider = rider_of(parts.drafter)
        riders = None if rider is None else Riders(parts.rows, rider, parts.pricer, parts.pacer)
        super().__init__(parts, rows, riders)
        self._blocks = blocks

    def next(self, seats: list[Seat], *, plain: bool = False) -> Move | BlockMove:
        """The next verification, as `HostDrafts.next`, with the groups that ride on it."""
        if plain:
            return self.skip(seats)
        plan, drafted = self._draft(seats)
        riding = tuple(spec.masks.behind if spec.masks else () for spec in plan.full)
        # What a row has no bits for does not ride.
        last = min(max((own[-1] for own in riding if own), default=-1), self._blocks.most - 1)
        return Move(0, verifies=True, drafted=drafted) if last < 0 else BlockMove(drafted, riding, last + 1)

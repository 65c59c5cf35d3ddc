"""What a verification with mask groups tells the drafter: the blocks of the rows whose group came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from glimpse.cache.rows import RowView
from glimpse.drafting.block.drafter import BlockDrafter
from glimpse.drafting.drafter import Outcome
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.parts import Parts


class BlockReader:
    """Reads the step that was sent last, once the host's rows hold what it committed."""

    def __init__(self, blocks: BlockState, parts: Parts) -> None:
        self._blocks, self._rows, self._pricer = blocks, parts.rows, parts.pricer
        self._drafter = cast(BlockDrafter, parts.drafter)

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """What blocks are worth, of a verification with masks or without."""
        for outcome in outcomes:
            if outcome.drafted:
                self._pricer.observe(outcome.accepted)

    def arrived(self, move: BlockMove, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """The step has ended: `slots` by device row, and what became of those that go on."""
        found = {outcome.slot: outcome for outcome in outcomes if len(outcome.tokens) == outcome.accepted + 1}
        rows = [
            row for row, slot in enumerate(slots) if slot in found and move.made(row, found[slot].accepted)
        ]  # fmt: skip
        if rows:
            view = RowView(self._rows, tuple(slots[row] for row in rows))
            self._drafter.keep(view, *self._blocks.read(rows))

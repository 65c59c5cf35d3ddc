"""What a verification with mask groups tells the host: the blocks of the rows whose group came true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.block.drafter import BlockDrafter
from glimpse.drafting.drafter import Outcome
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.parts import Parts

Keep = Callable[[RowView, Tensor, Tensor], None]
"""keep(rows, tokens, chances [rows, size]): the blocks that go on from what these rows have committed."""


class BlockReader:
    """Reads the steps in the order in which they were sent, once the host's rows hold what each committed."""

    def __init__(self, blocks: BlockState, parts: Parts, keep: Keep | None) -> None:
        """`keep`: who is told; None: the drafter, for the host to draft with."""
        self._blocks, self._rows, self._pricer, self._told = blocks, parts.rows, parts.pricer, keep
        self._drafter = cast(BlockDrafter, parts.drafter)

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """What blocks are worth, of a verification with masks or without."""
        for outcome in outcomes:
            if outcome.drafted:
                self._pricer.observe(outcome.accepted)

    def arrived(self, move: BlockMove, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """The step has ended: `slots` by device row, and what became of those that go on."""
        tokens, chances = self._blocks.read()
        found = {outcome.slot: outcome for outcome in outcomes if len(outcome.tokens) == outcome.accepted + 1}
        rows = [
            row for row, slot in enumerate(slots) if slot in found and move.made(row, found[slot].accepted)
        ]  # fmt: skip
        if rows:
            view = RowView(self._rows, tuple(slots[row] for row in rows))
            keep = self._told or self._drafter.keep
            keep(view, tokens[rows], chances[rows])

"""What a batch does next where blocks have a length foretold: verify them and make the next, a step ahead of the host.

FlexDraft's parallel way (arXiv 2605.20022): groups ride wherever a row may end. How long each draft is, and whether its
group came true, only the device knows.
"""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.pace import Move


class BlockPace:
    """The same step for all rows, over and over."""

    def __init__(self, blocks: BlockState) -> None:
        self._drafted = blocks.ahead
        self._groups = min(blocks.ahead + 1, blocks.most)

    def next(self, view: RowView, *, plain: bool = False) -> Move | BlockMove:
        """What to launch now for these rows; `plain`: a plain step, which drops their drafts."""
        if plain:
            return Move(0, verifies=True)
        return BlockMove(self._drafted, (tuple(range(self._groups)),) * len(view), self._groups)

    def leave(self, slot: int) -> None:
        """Keeps nothing of a row."""

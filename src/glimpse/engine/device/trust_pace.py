"""What a batch of trusted rows does next: whatever the device finds (`trust_work`)."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.engine.device.pace import Move


class TrustPace:
    """Every step is one token of every row; which rows read everything for it, the step itself decides."""

    def next(self, view: RowView, *, plain: bool = False) -> Move:
        """The next step. `plain` asks for nothing more: a row whose logits were not finite reads everything next."""
        return Move(0, verifies=True)

    def leave(self, slot: int) -> None:
        """Keeps nothing of a row."""

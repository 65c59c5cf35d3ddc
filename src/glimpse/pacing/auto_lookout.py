"""Whose shadows follow the text, and when: within what that may cost, in the rows of a batch by turns."""

from __future__ import annotations

import time
from collections.abc import Mapping

from glimpse.cache.rows import RowView
from glimpse.drafting.auto import PLAIN, AutoDrafter
from glimpse.pacing.auto_row import AutoRow
from glimpse.pacing.auto_shadow import Market

STRETCH, STRETCH_SECONDS = 16, 0.004
"""Tokens that shadows follow at a time, and what the first time is taken to cost. The first one of a batch, whose rows
do not draft before a shadow has shown that it pays, is on credit; that of a row alone is not: which drafter did better
over its first tokens says next to nothing of who will (docs/performance.md)."""
SHARE = 0.003
"""Of the decoding time may go into shadows."""
SENTINEL = 0.25
"""Part of that which the sentinel's stretch is taken to cost: one shadow, of the cheap drafter that stands for all."""
SENTRY = "suffix"
"""Its name; where there is no such candidate the first one does it."""


class Lookout:
    """Wakes shadows and lets them follow, all rows out of one purse."""

    def __init__(self) -> None:
        self.looked = 0.0
        """Seconds that shadows have taken so far."""
        self._credit, self._stretch = 0.0, STRETCH_SECONDS
        """Seconds that shadows may take, and what the last stretch of all of a row's took."""
        self._lent = False
        """A batch has had its first stretch on credit."""

    def open(self) -> None:
        """A request has come into an empty engine: it owes nothing for others."""
        self._credit, self._stretch, self._lent = 0.0, STRETCH_SECONDS, False

    def earn(self, seconds: float) -> None:
        """So long was decoded."""
        self._credit += SHARE * seconds

    def wake(self, drafter: AutoDrafter, view: RowView, slot: int, rows: Mapping[int, AutoRow]) -> None:
        """All shadows of a row where there is credit for them; where nobody drafts and there is less, the sentinel.

        In a batch, too, the sentinel watches rows for which nobody drafts: those that recycle logits want them looked
        at, which is not in the price. Its rows take turns: the one whose shadows followed least often is next.
        """
        row = rows[slot]
        if len(view) > 1 and not self._lent:
            self._credit, self._lent = self._credit + STRETCH_SECONDS, True
        alone = self._credit < self._stretch or (len(view) > 1 and row.chooser.current == PLAIN)
        if alone and (row.chooser.current != PLAIN or self._credit < SENTINEL * self._stretch):
            return
        if row.stretches > min(rows[other].stretches for other in view.slots):
            return
        row.alone, row.awake, row.cost = alone, STRETCH, 0.0
        row.stretches += 1
        names = [name for name in row.shadows if name != row.chooser.current]
        for name in _sentinel(names) if alone else names:
            reader = drafter.listen(view, slot, name)
            begun = time.perf_counter()
            reader.catch_up(view.history(slot))
            row.shadows[name].wake(reader)
            self._charge(row, time.perf_counter() - begun)

    def follow(
        self, drafter: AutoDrafter, slot: int, row: AutoRow, tokens: list[int], market: Market, host: float
    ) -> None:
        """A row's next tokens; see `Shadow.follow`."""
        if not row.awake:
            return
        begun = time.perf_counter()
        for shadow in row.shadows.values():
            shadow.follow(tokens, market, host)
        row.awake = max(0, row.awake - len(tokens))
        if not row.awake:
            row.next_look = 0
            for name, shadow in row.shadows.items():
                shadow.sleep()
                drafter.ignore(slot, name)
        self._charge(row, time.perf_counter() - begun)
        if not row.awake and not row.alone:
            self._stretch = row.cost

    def _charge(self, row: AutoRow, seconds: float) -> None:
        self._credit -= seconds
        row.cost += seconds
        self.looked += seconds


def _sentinel(names: list[str]) -> list[str]:
    return [SENTRY] if SENTRY in names else names[:1]

"""The pacer of `auto` on a GPU: priced drafts of one source on the host, or of the batch in step.

Nodes are priced by `marginal`, drafts of the batch's own by `fleet`; which of both the batch goes by `InStep` says, and
when the host is not worth waiting for the engine does (`engine.device.asking`).
"""

from __future__ import annotations

from dataclasses import replace

from glimpse.cache.rows import RowView
from glimpse.drafting.auto_graphs import AutoOnGraphs
from glimpse.drafting.drafter import Drafter
from glimpse.drafting.sparse import SparseDrafter
from glimpse.errors import ArgumentError
from glimpse.pacing.fleet import FleetPacer
from glimpse.pacing.in_step import InStep, Ways
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import Decisions, PaceContext


class AutoGraphsPacer(MarginalPacer):
    """Paces an `AutoOnGraphs`, which it is given after it was built (`attach`)."""

    name = "auto"
    paces = AutoOnGraphs.name
    cuts = False

    def __init__(self, context: PaceContext) -> None:
        super().__init__(context)
        self._fleet = FleetPacer(replace(context, drafts_at_once=False))

    def attach(self, drafter: Drafter) -> None:
        """The drafter whose rows it paces. Raises ArgumentError for one that is not made for it."""
        if not isinstance(drafter, AutoOnGraphs):
            raise ArgumentError(f"pacer 'auto' is for drafter 'auto'; for {drafter.name!r} leave the pacer out")
        self.in_step = InStep(self._fleet, Ways(drafter.source, SparseDrafter.name, drafter.note))

    def admit(self, rows: RowView) -> None:
        """Start values of both ways."""
        super().admit(rows)
        self._fleet.admit(rows)

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """As `marginal`; requests that were told of no choice are, such as those that run eagerly."""
        decided = super().decide(rows, room)
        return replace(decided, choices=self.in_step.untold(rows)) if self.in_step else decided

    def retire(self, rows: RowView) -> None:
        """Drops what was learned."""
        super().retire(rows)
        self._fleet.retire(rows)
        if self.in_step:
            self.in_step.leave(rows)

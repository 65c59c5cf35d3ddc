"""What `auto` is on a GPU, whose engine verifies whole drafts as graphs: one source on the host, the batch beside it.

Nodes are cheap there and a choice among sources costs host time that the device waits for: RACER with priced nodes is
within a few percent of the best host drafter nearly everywhere (docs/auto.md). It is told the successors of prompts, as
`racer` by name is. The batch may draft for itself instead, all rows in step (`pacing.in_step`).
"""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Draft, DraftContext, Drafter
from glimpse.drafting.lookup import LookupDrafter
from glimpse.drafting.racer.drafter import RacerDrafter, RacerSuffixDrafter
from glimpse.errors import ArgumentError

LONGEST_CHAIN = 16
"""Tokens of a chain where a GPU verifies nothing else, as with `lookup` alone."""


class AutoOnGraphs(Drafter):
    """What the drafters of this file have in common; each is a drafter of the host, too."""

    name = "auto"
    recalls = True
    stores = True
    paced_by = "auto"
    in_step = True
    source: str
    """The drafter that it is on the host."""
    note: str
    """Why there are no other candidates, in a few words."""


class AutoTrees(AutoOnGraphs, RacerDrafter):
    """RACER's trees."""

    source = RacerDrafter.name
    note = "on a GPU the host drafts by racer for all rows, or sparse does"


class AutoStoreTrees(AutoOnGraphs, RacerSuffixDrafter):
    """The same with suffix matches, which read a store."""

    source = RacerSuffixDrafter.name
    note = "on a GPU with a store the host drafts by racer+suffix for all rows, or sparse does"


class AutoChains(AutoOnGraphs, LookupDrafter):
    """Matches within the request, where only chains can be verified."""

    source = LookupDrafter.name
    note = "with exact 'bitwise' only none, lookup and sparse: trees round otherwise"

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """Chains of a GPU's length."""
        return super().plan(rows, [min(left, LONGEST_CHAIN) for left in room])


def auto_on_graphs(context: DraftContext) -> AutoOnGraphs:
    """The one that goes with an engine of graphs.

    Raises ArgumentError for an adapter, as no masks ride there, and for a store where only chains can be verified, as
    no drafter of chains reads one.
    """
    adapter = None if context.target is None else context.target.adapter
    if adapter is not None:
        raise ArgumentError(
            f"adapter {adapter!r} means nothing to drafter 'auto' on a GPU, where masks ride for drafter 'block' "
            "alone; leave it out, or ask for that"
        )
    if context.chains_only and context.store is not None:
        raise ArgumentError("suffix_store means nothing to drafter 'auto' with exact 'bitwise', which takes chains")
    if context.chains_only:
        return AutoChains()
    drafter = (AutoTrees if context.store is None else AutoStoreTrees).build(context)
    drafter.wants_prompt_topk = True
    return drafter

"""Pacing trees whose spine is drafted a token a step: one pacer draws the spine out, its branches are priced.

What drafting the spine cost is spent when branches are weighed, but a node that is hardly worth its own price may still
be worth less than beginning the next round sooner. So, as in `marginal`, of all nodes of the rows that verify those are
kept that together make

    (rows + sum of P(the text runs through node)) / (seconds of the rounds + sum of each node's seconds)

greatest, where the seconds of the rounds are what the spines took to draft and what their verification takes anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.entropy import EntropyPacer
from glimpse.pacing.keeping import keep_nodes, rehearse
from glimpse.pacing.pacer import Decisions, PaceContext, Pacer
from glimpse.pacing.proposals import Proposal, Proposals, Trust, believed
from glimpse.pacing.rounds import RoundPrices
from glimpse.pacing.worth import worthwhile


@dataclass(slots=True)
class _RowState:
    trust: Trust = field(default_factory=Trust)
    proposal: Proposal | None = None


class SpinePacer(Pacer):
    """Lets `inner` decide how long a spine gets, and keeps of its tree what pays."""

    foretells = False

    def __init__(self, inner: Pacer, context: PaceContext) -> None:
        """`inner` is told of spines only, as if there were no branches. Compiles loops that are not kept."""
        rehearse()
        self._inner, self._prices = inner, RoundPrices(context.costs, context.draft_positions)
        self.name, self.most = inner.name, inner.most
        self._states: dict[int, _RowState] = {}

    @classmethod
    def build(cls, context: PaceContext) -> SpinePacer:
        """Around `entropy`."""
        return cls(EntropyPacer.build(context), context)

    def admit(self, rows: RowView) -> None:
        """Every request's drafts are trusted as the drafter says, at first."""
        self._inner.admit(rows)
        for slot in rows.slots:
            self._states[slot] = _RowState()

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """As `inner` decides: while a row drafts, there is nothing but a chain."""
        return self._inner.decide(rows, room)

    def trim(self, rows: RowView) -> list[int]:
        """Drops the nodes that are not worth verifying; how many are left. The spine stays in front."""
        proposals, states = Proposals.of(rows), [self._states[slot] for slot in rows.slots]
        gains = proposals.split(proposals.along(believed([state.trust for state in states], proposals)))
        spent = self._prices.spent(rows, [_spine(rows.rows, slot) for slot in rows.slots])
        found = worthwhile(gains, self._prices.of_tokens(rows), len(rows), (spent, spent))
        kept = [np.sort(nodes) for nodes in found]
        for state, proposal in zip(states, proposals.each(), strict=True):
            state.proposal = proposal
        keep_nodes(rows, kept)
        return [len(nodes) for nodes in kept]

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Judges what was proposed by what was committed; `inner` hears of the spines."""
        self._inner.observe(rows, [_of_spine(rows.rows, outcome) for outcome in outcomes])
        for outcome in outcomes:
            state = self._states[outcome.slot]
            if state.proposal is not None:
                state.trust.learn(state.proposal, outcome.tokens)
            state.proposal = None

    def retire(self, rows: RowView) -> None:
        """Drops what was learned."""
        self._inner.retire(rows)
        for slot in rows.slots:
            self._states.pop(slot, None)


def _spine(rows: Rows, slot: int) -> int:
    """How long the row's spine is: entropies are known of its tokens only, which come first."""
    return int(torch.isfinite(rows.draft_entropy[slot, : int(rows.draft_len[slot])]).sum())


def _of_spine(rows: Rows, outcome: Outcome) -> Outcome:
    """The outcome as if only the spine had been verified."""
    if not outcome.drafted:
        return outcome
    drafted = int(torch.isfinite(rows.draft_entropy[outcome.slot, : outcome.drafted]).sum())
    path = range(outcome.accepted) if outcome.path is None else outcome.path
    accepted = sum(node == place < drafted for place, node in enumerate(path))
    return replace(outcome, drafted=drafted, accepted=accepted, path=None)

"""Drafts as large as they pay: each node is kept while its expected gain beats the marginal price of verifying it.

The marginal criterion of LibraSpec (arXiv 2608.08721: drafted blocks), for every node of a tree and over the batch,
with measured prices in the place of its constant (`libra` has the paper's search, and why it is the same criterion): of
all rows' nodes those are kept that together make

    (rows + sum of P(the text runs through node)) / (seconds of the plain step + sum of each node's seconds)

greatest; where a device waits for the host's drafts, that is in the seconds of the step, and small steps have larger
trees for it. The nodes that do are a prefix of all, ordered by probability over price, so one sort finds them. A child
is less probable than its parent and costs as much, so what is kept is closed: no node without its parent. One wide tree
in an empty batch, small ones where rows share a step whose every token costs, none in a full one.

Which nodes are kept may depend on what they are: exact for deterministic drafts, whose verification reads the target's
law and noise alone (`coupled`, `matched`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.block_rule import CutRule
from glimpse.pacing.chain import MarginalChainPacer
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.cutting import Market, cut, rehearse
from glimpse.pacing.judging import Judged, learn
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer
from glimpse.pacing.padding import Padding, Sizes
from glimpse.pacing.proposals import Floats, Proposal, Proposals, Trust, believed
from glimpse.pacing.spine import SpinePacer
from glimpse.pacing.worth import StepPrices, node_prices, token_prices

PLAIN_FIRST = 2
"""Plain steps of a kind that are run before the first draft; they write text like any other."""


@dataclass(slots=True)
class _RowState:
    trust: Trust = field(default_factory=Trust)
    proposed: Judged | None = None
    """The draft that is to be judged."""


class MarginalPacer(Pacer):
    """Takes whole drafts (blocks, chains, trees), prices their nodes, and keeps those that pay."""

    name = "marginal"
    foretells = False
    cuts = True
    DEFAULT_MOST = 64

    def __init__(self, context: PaceContext) -> None:
        asked = self.DEFAULT_MOST if context.draft_tokens is None else context.draft_tokens
        self.most = asked if context.can_draft else 0
        self._costs: StepCosts = context.costs
        self._padding = None if context.padded is None else Padding(context.costs, context.padded)
        self._plain, self._decoding = StepLoad(), 0
        self._states: dict[int, _RowState] = {}

    @classmethod
    def build(cls, context: PaceContext) -> Pacer:
        """With the most nodes asked for; for chains that need a forward a token, and for spines with branches, whose
        spine `entropy` paces, the pacer of their own. Compiles loops that are not kept from an earlier use."""
        if context.branches:
            return SpinePacer.build(context)
        whole = context.drafts_at_once or not context.can_draft
        if not whole:
            return MarginalChainPacer(context)
        rehearse()
        return cls(context)

    def admit(self, rows: RowView) -> None:
        """Every request's drafts are trusted as the drafter says, at first."""
        for slot in rows.slots:
            self._states[slot] = _RowState()

    def prepare(self) -> None:
        """Works out what padding costs."""
        if self._padding is not None:
            self._padding.prepare(self._plain)

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Everyone drafts, which costs next to nothing; `trim` decides."""
        self._meet(rows)
        most = [min(self.most, left) for left in room]
        return Decisions([Action.DRAFT if left > 0 else Action.PLAIN for left in most], most)

    def _meet(self, rows: RowView) -> None:
        """These rows decode now: what nodes cost depends on them."""
        read = sum(rows.numbers(rows.rows.arrays.committed))
        self._decoding = len(rows)
        self._plain = StepLoad(full_tokens=len(rows), full_kv=read, pairs=read)

    @property
    def plain_is_unknown(self) -> bool:
        """Whether plain steps of the rows last decided on have hardly run: they are what drafting must beat."""
        return self._costs.seen(self._plain) < PLAIN_FIRST

    def shares(self, length: int) -> tuple[float, float, float]:
        """For a row of `length` among the rows last decided on, in seconds: its share of a plain step, its share of a
        step that nodes are added to, and what one node adds."""
        begin, plain = self._seconds()
        return plain / self._decoding, begin / self._decoding, max(float(token_prices(self._costs, length)), 1e-12)

    def prices(self, rows: RowView, alike: int, nodes: int) -> StepPrices | None:
        """What steps of these rows cost, by which the drafts of `alike` of them are cut as if all others were like
        these, each of at most `nodes` nodes; None where it is not known what a plain step takes."""
        self._meet(rows)
        if self.plain_is_unknown:
            return None
        each, count = len(rows) / alike, alike * nodes
        start, plain = (seconds / each for seconds in self._seconds())
        taken = start + float(token_prices(self._costs, self._plain.full_kv // len(rows))) * np.arange(count + 1)
        if self._padding is not None:
            taken = taken + self._padding.seconds(self._plain, count, each) / each
        return StepPrices(alike, plain, np.asarray(taken, np.float64))

    def runs_with(self, nodes: int) -> int:
        """The query tokens that a verification of one row's `nodes` nodes runs with."""
        return 1 + nodes if self._padding is None else self._padding.tokens(1 + nodes)

    def runs_in(self, sizes: Sizes) -> None:
        """Verifications run in these sizes."""
        if self._padding is not None:
            self._padding.follow(sizes)

    def adopt(self, slot: int, trust: Trust) -> None:
        """Trusts a row's nodes by what was learned elsewhere, and goes on learning there."""
        self._states[slot].trust = trust

    def expect(self, slot: int, proposal: Proposal) -> None:
        """A row's next draft was made elsewhere; it is judged when the text is known."""
        self._states[slot].proposed = proposal, 0, len(proposal.tokens)

    def trust_of(self, slot: int) -> Trust:
        """What was learned of a row's nodes."""
        return self._states[slot].trust

    def rule(self, slot: int, floor: float) -> CutRule:
        """By which a row's next blocks are cut, foretold (`cuts`); `floor`: the least chance that is worth a token."""
        return CutRule.of(self.trust_of(slot), floor)

    def trim(self, rows: RowView) -> list[int]:
        """Moves the nodes worth verifying to the front of each row's draft; how many they are."""
        if self.plain_is_unknown:
            self._expect(rows, Proposals.of(rows))
            return [0] * len(rows)
        found, sizes = cut(rows, self._trusts(rows), self._market(rows))
        self._expect(rows, found)
        return sizes

    def _market(self, rows: RowView) -> Market:
        """What nodes of these rows' drafts cost."""
        start, plain = self._seconds()
        node, position = node_prices(self._costs)
        if self._padding is None:
            return Market(self._decoding, start, plain, node, position)
        nodes = sum(rows.numbers(rows.rows.arrays.counts))
        return Market(self._decoding, start, plain, node, position, self._padding.seconds(self._plain, nodes))

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Judges what was proposed by what was committed."""
        trusts, drafts, committed = list[Trust](), list[Judged](), list[list[int]]()
        for outcome in outcomes:
            state = self._states[outcome.slot]
            if state.proposed is not None:
                trusts.append(state.trust)
                drafts.append(state.proposed)
                committed.append(outcome.tokens)
                state.proposed = None
        learn(trusts, drafts, committed)

    def retire(self, rows: RowView) -> None:
        """Drops what was learned."""
        for slot in rows.slots:
            self._states.pop(slot, None)

    def proposed(self, rows: RowView, slot: int) -> tuple[Proposal, Floats]:
        """The draft that stands in a row, which is judged when the text is known; and the chance [n] of each of its
        nodes, given that its parent is accepted."""
        view = rows.rows_of(slot)
        found = Proposals.of(view)
        self._expect(view, found)
        return found.nodes, believed(self._trusts(view), found)

    def _trusts(self, rows: RowView) -> list[Trust]:
        return [self._states[slot].trust for slot in rows.slots]

    def _expect(self, rows: RowView, proposals: Proposals) -> None:
        begin = 0
        for slot, end in zip(rows.slots, proposals.ends.tolist(), strict=True):
            self._states[slot].proposed = proposals.nodes, begin, end
            begin = end

    def _seconds(self) -> tuple[float, float]:
        """Of the step that nodes are added to, and of the same step without any; the host has been waited for in
        both."""
        start, waits = self._costs.seconds(self._plain), self._costs.waits
        # The second token of a step may cost more than the next ones, which no line through all steps shows.
        return start + waits, min(start, self._costs.measured(self._plain) or start) + waits

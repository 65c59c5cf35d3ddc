"""The pacer of the drafter `auto`: who drafts for each row, by expected tokens per second, and how far.

Speeds are over plain decoding, whose step is measured. A host drafter's comes from its rounds, those that ran and those
of its shadow (`auto_shadow`); the self drafter's from the running acceptance and the prices of its rounds (`entropy`);
that of blocks from their own rounds (`auto_block`). The choice follows `auto_choice`. Nodes of trees are priced by
`marginal`, lengths of self-drafted chains by `entropy`. What looking costs is bounded: shadows take a small share of
the time (`auto_lookout`), and a row that does not draft is looked at only every few tokens. In a batch, where a token
costs a larger part of a CPU's step, no source drafts before some row has seen that it pays (`auto_batch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from glimpse.cache.rows import RowView
from glimpse.drafting.auto import BLOCK, PLAIN, SELF, AutoDrafter
from glimpse.drafting.drafter import Drafter, Outcome
from glimpse.errors import ArgumentError
from glimpse.pacing.auto_batch import Common
from glimpse.pacing.auto_block import round_steps
from glimpse.pacing.auto_choice import ENTER, Chooser
from glimpse.pacing.auto_graphs import AutoGraphsPacer
from glimpse.pacing.auto_lookout import Lookout
from glimpse.pacing.auto_row import AutoRow
from glimpse.pacing.auto_shadow import Market, Score, Shadow
from glimpse.pacing.costs import StepLoad
from glimpse.pacing.cutting import rehearse
from glimpse.pacing.entropy import EntropyPacer
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer
from glimpse.speculation import Choice

GUESSES = {"lookup": 1.10, "suffix": 1.11, "racer": 1.14, "racer+suffix": 1.13}
"""Speeds over plain decoding before anything of a request is seen: the order of measured means, cautious in size."""
REACH, BEYOND = 1100, {"racer+suffix": 1.15}
"""Tokens whose n-grams RACER's automaton holds (10,000 nodes); guesses for requests with more to read, in a longer
prompt or in a store of earlier ones."""
WARY = 4
"""Times that drafting counts as not having paid for a row of a batch. What nodes cost there is a guess at first, and
what one row saves is worth its share of a step only where another request waits for its place."""
LOOK = 8
"""Tokens between looks at a row's choice."""
APART = (PLAIN, SELF, BLOCK)
"""Candidates that are no source on the host, and so have no shadow."""
HOPE = 0.92
"""Chance of acceptance that a trial of the self drafter begins with."""


class AutoPacer(Pacer):
    """Chooses among the candidates of an `AutoDrafter`, which it is given after it was built (`attach`)."""

    name = "auto"
    paces = AutoDrafter.name
    """The only drafter it goes with."""
    foretells = False
    DEFAULT_MOST = 64

    def __init__(self, context: PaceContext) -> None:
        asked = self.DEFAULT_MOST if context.draft_tokens is None else context.draft_tokens
        self.most, self._costs = asked, context.costs
        self._trees = MarginalPacer(replace(context, drafts_at_once=True, draft_tokens=asked))
        chains = min(asked, EntropyPacer.DEFAULT_MOST)
        self._chains = EntropyPacer(replace(context, drafts_at_once=False, draft_tokens=chains))
        self._drafter: AutoDrafter | None = None
        self._rows: dict[int, AutoRow] = {}
        self._host, self._spent, self._seen = 0.0, 0.0, 0.0
        """Seconds of the host: a row's round, its moving average; all rounds so far; those of the steps before."""
        self._idle = 0.0
        """Seconds of the host in a step that verified nothing, their moving average: what is measured as a plain step
        holds them, and plain decoding is without."""
        self._lookout, self._common, self._watched = Lookout(), Common(self._rows), 0.0

    @classmethod
    def build(cls, context: PaceContext) -> Pacer:
        """With the most nodes asked for; for a GPU the pacer of its drafter. Compiles the loops where they are not kept
        from an earlier use."""
        rehearse()
        return AutoGraphsPacer(context) if context.on_gpu else cls(context)

    def attach(self, drafter: Drafter) -> None:
        """The drafter whose rows it paces. Raises ArgumentError for one with nothing to choose from."""
        if not isinstance(drafter, AutoDrafter):
            raise ArgumentError(f"pacer 'auto' chooses for drafter 'auto'; for {drafter.name!r} leave the pacer out")
        self._drafter = drafter

    @property
    def drafter(self) -> AutoDrafter:
        """See `attach`."""
        if self._drafter is None:
            raise AssertionError("pacer 'auto' was given no drafter")
        return self._drafter

    @property
    def plain_is_unknown(self) -> bool:
        """See `MarginalPacer.plain_is_unknown`."""
        return self._trees.plain_is_unknown

    def admit(self, rows: RowView) -> None:
        """The first choice of a request that is alone: the best by the guesses, and by the prices of self drafting at
        this length. Others decode plainly until the first look, which knows the batch."""
        self._trees.admit(rows)
        self._chains.admit(rows)
        alone = len(rows) + len(self._rows) == 1
        if not self._rows:
            self._lookout.open()
        for slot in rows.slots:
            names = [name for name in self.drafter.candidates if name not in APART]
            more = self.drafter.store is not None or int(rows.rows.prompt_len[slot]) > REACH
            guesses = GUESSES | (BEYOND if more else {})
            row = AutoRow(Chooser(PLAIN), {name: Shadow(Score(guesses.get(name, 1.1))) for name in names})
            self._rows[slot] = row
            if alone:
                self._open(slot, self._speeds(rows.rows_of(slot), row))

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Rows choose, then draft, verify or decode plainly."""
        decided = self._trees.decide(rows, room)
        self._common.step()
        drafted = rows.column(rows.rows.draft_len)
        if not any(drafted) and self._trees.plain_is_unknown:
            return Decisions([Action.PLAIN] * len(rows), [0] * len(rows))
        explained = {}
        for slot, have, length in zip(rows.slots, drafted, rows.column(rows.rows.committed_len), strict=True):
            choice = self._look(rows, slot, length) if not have else None
            if choice is not None:
                explained[slot] = choice
        actions, most = list(decided.actions), list(decided.room)
        for index, slot in enumerate(rows.slots):
            if self._rows[slot].chooser.current == PLAIN:
                actions[index], most[index] = Action.PLAIN, 0
        self._chain_decisions(rows, room, actions, most)
        return Decisions(actions, most, choices=explained)

    def trim(self, rows: RowView) -> list[int]:
        """See `MarginalPacer.trim`."""
        begun = time.perf_counter()
        kept = self._trees.trim(rows)
        self._spent += time.perf_counter() - begun
        return kept

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Rounds that ran score who drafted; shadows follow the text."""
        begun = time.perf_counter()
        drafting = self._apart(outcomes, lambda name: name not in (PLAIN, SELF))
        hosted = self._apart(outcomes, lambda name: name not in APART)
        self._trees.observe(rows, drafting)
        self._chains.observe(rows, self._apart(outcomes, lambda name: name == SELF))
        self._spent += time.perf_counter() - begun
        self._time_host(len(hosted), plain=not any(outcome.drafted for outcome in outcomes))
        for outcome in outcomes:
            row = self._rows[outcome.slot]
            if row.market is not None and outcome.tokens:
                self._score(rows, row, row.market, outcome)
                self._lookout.follow(self.drafter, outcome.slot, row, outcome.tokens, row.market, self._host)

    def retire(self, rows: RowView) -> None:
        """Drops what was learned."""
        self._trees.retire(rows)
        self._chains.retire(rows)
        for slot in rows.slots:
            self._rows.pop(slot, None)

    def _chain_decisions(self, rows: RowView, room: list[int], actions: list[Action], most: list[int]) -> None:
        own = [self._rows[slot].chooser.current == SELF for slot in rows.slots]
        if any(own):
            places = [index for index, mine in enumerate(own) if mine]
            decided = self._chains.decide(rows.pick(own), [room[index] for index in places])
            for index, action, left in zip(places, decided.actions, decided.room, strict=True):
                actions[index], most[index] = action, left

    def _apart(self, outcomes: list[Outcome], wanted: Callable[[str], bool]) -> list[Outcome]:
        return [outcome for outcome in outcomes if wanted(self._rows[outcome.slot].chooser.current)]

    def _look(self, rows: RowView, slot: int, length: int) -> Choice | None:
        """Prices, shadows and perhaps a change of the row's choice; what there is to explain."""
        row, position = self._rows[slot], length - int(rows.rows.prompt_len[slot])
        crowded = len(rows) > 1
        if crowded and not row.told:
            # It may have been alone when it came.
            self._open(slot, {PLAIN: 1.0})
        if not row.awake:
            self._lookout.wake(self.drafter, rows, slot, self._rows)
        if position < row.next_look and row.market is not None:
            return None
        row.next_look = position + LOOK
        row.market = self._market(rows, length)
        self._hope(slot, row, position, length)
        row.compare()
        if crowded:
            self._common.tell(row)
        speeds = self._speeds(rows.rows_of(slot), row)
        changed = row.told and row.chooser.decide(position, speeds)
        if changed:
            self._take(slot, row.chooser.current)
        elif not row.told and crowded:
            row.chooser.failures, row.chooser.means = WARY, 0.0
            self._open(slot, speeds, least=ENTER)
        if not changed and row.told:
            return None
        row.told = True
        return Choice(position, row.chooser.current, speeds, row.market.plain)

    def _market(self, rows: RowView, length: int) -> Market:
        plain, begin, node = self._trees.shares(length)
        return Market(max(plain - self._idle / len(rows), 0.5 * plain), begin, node)

    def _hope(self, slot: int, row: AutoRow, position: int, length: int) -> None:
        """Those without a shadow are thought well of, blocks at the first look and all of them at a trial."""
        trial = position >= row.trial and row.chooser.current not in (SELF, BLOCK)
        if trial:
            row.trial, row.wait = position + 2 * row.wait, 2 * row.wait
            self._chains.hope(slot, HOPE)
        if row.market is not None and self.drafter.block is not None and (trial or not row.told):
            row.blocks.hope(self._costs, row.market, self.drafter.head.size, length)

    def _speeds(self, view: RowView, row: AutoRow) -> dict[str, float]:
        speeds = {PLAIN: 1.0} | {name: shadow.score.speed for name, shadow in row.shadows.items()}
        if SELF in self.drafter.candidates:
            speeds[SELF] = self._chains.speeds(view)[0]
        if BLOCK in self.drafter.candidates:
            speeds[BLOCK] = row.blocks.score.speed
        return speeds

    def _open(self, slot: int, speeds: dict[str, float], *, least: float = 0.0) -> None:
        """The first choice: the fastest, if it is faster than `least`."""
        best = max(speeds, key=lambda name: speeds[name])
        chooser = self._rows[slot].chooser
        chooser.current = best if speeds[best] > least else PLAIN
        self._take(slot, chooser.current)

    def _take(self, slot: int, name: str) -> None:
        row = self._rows[slot]
        if name in row.shadows:
            row.shadows[name].sleep()
            self._trees.adopt(slot, row.shadows[name].trust)
        elif name == BLOCK:
            self._trees.adopt(slot, row.blocks.trust)
        self.drafter.choose(slot, name)

    def _score(self, rows: RowView, row: AutoRow, market: Market, outcome: Outcome) -> None:
        name, taken = row.chooser.current, market.steps(outcome.drafted, self._host)
        if outcome.drafted and len(rows) == 1:
            # Steps of few nodes may take longer than the line through all steps says.
            read = int(rows.rows.committed_len[outcome.slot]) + outcome.drafted
            measured = self._costs.measured(StepLoad(full_tokens=self._trees.runs_with(outcome.drafted), full_kv=read))
            taken = measured / market.plain if measured else taken
        if name == SELF:
            taken = self._chains.cost(rows.rows_of(outcome.slot), outcome.drafted)
        if name == BLOCK:
            length = int(rows.rows.committed_len[outcome.slot])
            taken = round_steps(self._costs, market, outcome, self.drafter.head.size, length)
            row.blocks.add(outcome, taken)
        if name in row.shadows:
            row.shadows[name].score.add(len(outcome.tokens), taken)
        if name != PLAIN:
            row.chooser.book(len(outcome.tokens), taken)
        self._lookout.earn(market.steps(outcome.drafted, 0.0) * market.plain)

    def _time_host(self, rounds: int, *, plain: bool) -> None:
        """What a row's round takes on the host, of what was spent since the last step."""
        spent = self._spent + self.drafter.spent
        new, self._seen = spent - self._seen, spent
        if rounds:
            self._host += 0.1 * (new / rounds - self._host) if self._host else new / rounds
        looked, self._watched = self._lookout.looked - self._watched, self._lookout.looked
        if plain:
            self._idle += 0.2 * (new + looked - self._idle)

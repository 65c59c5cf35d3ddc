"""What follows a report: tokens become output, and pacer, drafter and the host's rows learn of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from glimpse.acceptance.rule import trusts
from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_reading import BlockReader
from glimpse.engine.device.eligible import slowfast_of
from glimpse.engine.device.graphs import Ran
from glimpse.engine.device.mail import Letter, Mark
from glimpse.engine.device.relaxed import relaxed_of
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_reading import TreeReader
from glimpse.engine.parts import Parts
from glimpse.engine.request import Progress, Request
from glimpse.engine.settle import Round, keep_trusted, take_tokens
from glimpse.engine.watch import Did, Seen, Watch
from glimpse.pacing.costs import StepLoad
from glimpse.sampling.finite import not_finite


@dataclass(frozen=True, slots=True)
class Timed:
    """Some equal steps, from one mark to the next."""

    begin: Mark
    end: Mark
    load: StepLoad
    """Of each."""
    steps: int


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Launched:
    """Steps that the device has been given, and what will come back of them."""

    seats: tuple[Seat, ...]
    """By device row, at the launch."""
    verifies: bool
    ran: Ran
    steps: int
    timed: tuple[Timed, ...]
    letter: Letter
    arrived: Mark
    trees: TreeMove | None = None
    """The trees that were verified."""
    blocks: BlockMove | None = None
    """The mask groups that rode."""
    asked: bool = False
    """The host was asked for drafts, and nothing was in flight meanwhile."""
    hosted: bool = False
    """The host may have drafted: what it drafted with stays as it is until the step has been read."""
    unread: AbstractSet[int] = frozenset()
    """Requests (`arrival`) that were not drafted for, as their texts had not been read."""
    drafts: bool = False
    """Drafts were made on the device, so that pacers see their entropies, and a draft token is a step."""
    late: bool = False
    """The device was given something else to do before it (a prompt): when it ended says nothing of what it took."""


class Mirror:
    """The host's rows as arrays: a tensor's setter takes ten times as long for one number."""

    def __init__(self, rows: Rows) -> None:
        self._tokens = rows.tokens.numpy()
        self._committed, self._verified = rows.committed_len.numpy(), rows.verified_len.numpy()
        self._entropy, self._confidence = rows.draft_entropy.numpy(), rows.draft_confidence.numpy()

    def length(self, slot: int) -> int:
        """Committed tokens of a row."""
        return int(self._committed[slot])

    def commit(self, slot: int, tokens: list[int]) -> None:
        """Appends committed tokens; all but the last have final keys and values."""
        begin = self._committed.item(slot)
        for place, token in enumerate(tokens, begin):  # of a few tokens an array takes five times as long to make
            self._tokens[slot, place] = token
        end = begin + len(tokens)
        self._committed[slot], self._verified[slot] = end, end - 1

    def note_drafts(self, launched: Launched) -> None:
        """Takes over what the rows' drafts were like; of a row without them, whatever stands there."""
        letter, slots = launched.letter, [seat.slot for seat in launched.seats]
        count, most = len(slots), letter.entropy.shape[1]
        self._entropy[slots, :most] = letter.entropy[:count]
        self._confidence[slots, :most] = letter.confidence[:count]


def steps_of(launched: Launched, *, trusted: bool = False) -> Iterator[Seen]:
    """What the rows did, of what has arrived: of a round, its draft steps and its verification.

    `trusted`: a token that was judged came of a fast step, and nothing judged it.
    """
    rows = [row for row, seat in enumerate(launched.seats) if not seat.request.finished]
    slots = [launched.seats[row].slot for row in rows]
    requests = [launched.seats[row].request for row in rows]
    none = [0] * len(rows)
    drafting, last = launched.timed[: -1 if launched.verifies else None], launched.timed[-1]
    for timed in drafting:
        yield Seen(timed.begin, timed.end, slots, requests, [Did.DRAFT] * len(rows), none, none, timed.steps)
    if launched.verifies:
        counts, judged = launched.letter.counts[rows], launched.letter.judged[rows]
        drafted = np.where((counts > 0) & (not trusted), judged, 0).tolist()
        kind = Did.DRAFT if trusted else Did.VERIFY
        did = np.where(counts == 0, Did.DRAFT, np.where(judged > 0, kind, Did.PLAIN)).tolist()
        yield Seen(last.begin, last.end, slots, requests, did, drafted, counts.tolist())


class DeviceSettler:
    """Turns reports into output."""

    def __init__(
        self, parts: Parts, *, waits: bool, trees: TreeReader | None = None, blocks: BlockReader | None = None
    ) -> None:
        """`waits`: the device waits for the host's drafts; `trees`: where these are trees; `blocks`: where mask tokens
        make them."""
        self._parts, self._waits, self._trees, self._blocks = parts, waits, trees, blocks
        self._lossy = relaxed_of(parts.acceptance) is not None
        self._trusts, self._paced = trusts(parts.acceptance), slowfast_of(parts) is not None
        self._mirror = Mirror(parts.rows)
        self._ended: Mark | None = None
        """Of the step read last."""
        self._made: list[Round | Progress] = []
        self.waited = 0.0
        """Seconds that the host waited for the last report."""
        self._untaught: list[Timed] = []
        """What steps took that nothing was learned from yet."""
        self.watch: Watch | None = None
        self.doubtful = False
        """Whether the last report had a row whose draft may have made its logits not finite."""

    def teach(self, *, fit: bool) -> None:
        """Learns what steps take from those that have been read, while the device works; `fit`: prices will be asked
        for soon, and finding them takes a tenth of the shortest steps."""
        costs = self._parts.costs
        for timed in self._untaught:
            costs.observe(timed.load, timed.end.since(timed.begin) / timed.steps)
        self._untaught.clear()
        if fit:
            costs.settle()
            self._parts.pacer.prepare()

    @property
    def untold(self) -> bool:
        """Whether a step has brought what `tell` has not told yet."""
        return bool(self._made)

    def tell(self) -> list[Progress]:
        """What the steps that were settled since have brought, with its text: for which no next step has to wait."""
        made, self._made = self._made, []
        return [one.told() if isinstance(one, Round) else one for one in made]

    def drop(self, request: Request) -> None:
        """Nobody wants to be told of a request any more; what it wrote stays."""
        made, self._made = self._made, []
        for one in made:
            if one.request is not request:
                self._made.append(one)
            elif isinstance(one, Round):
                one.told()

    def settle(self, launched: Launched) -> None:
        """Takes in what a step has brought; waits for it."""
        begun = time.perf_counter()
        launched.arrived.wait()
        self.waited = time.perf_counter() - begun
        if self.watch is not None:
            for seen in steps_of(launched, trusted=self._trusts):
                self.watch(seen)
        self._count(launched)
        if launched.drafts:
            self._mirror.note_drafts(launched)
        self.doubtful = False
        outcomes: list[Outcome] = []
        if launched.verifies:
            self._commit(launched, outcomes)
            self._learn(outcomes, launched)
            if self._blocks:
                self._blocks.learn(outcomes)
                if launched.blocks:
                    self._blocks.arrived(launched.blocks, [seat.slot for seat in launched.seats], outcomes)

    def _count(self, launched: Launched) -> None:
        ran = launched.ran
        for seat in launched.seats:
            speculation = seat.request.speculation
            if seat.request.finished:
                continue
            if ran.graph:
                speculation.graph_steps += launched.steps
                speculation.waiting_steps += launched.steps if self._waits and not launched.drafts else 0
            else:
                speculation.eager_steps[ran.reason] += launched.steps
        # Which rows read everything, where the device paces them, was not known at the launch.
        if ran.telling and not self._paced:
            self._untaught += launched.timed
            if launched.asked and self._ended is not None and not launched.late:
                self._parts.costs.wait(launched.timed[0].begin.since(self._ended))
        self._ended = launched.timed[-1].end

    def _commit(self, launched: Launched, outcomes: list[Outcome]) -> None:
        """What every row wrote becomes output."""
        letter, rows = launched.letter, len(launched.seats)
        counts, judged = letter.counts[:rows].tolist(), letter.judged[:rows].tolist()
        committed, broken = letter.committed[:rows, : max(counts)].tolist(), letter.broken[:rows].tolist()
        if self._trees and launched.trees:
            self._trees.arrived(launched.trees, max(counts) - 1)
        for row, seat in enumerate(launched.seats):
            if seat.request.finished:
                continue
            if broken[row]:
                self._give_up(seat, judged[row])
            elif counts[row]:
                outcomes.append(self._take(launched, row, committed[row][: counts[row]], judged[row]))

    def _take(self, launched: Launched, row: int, tokens: list[int], drafted: int) -> Outcome:
        """What a row wrote, of which `drafted` tokens or nodes were judged."""
        seat = launched.seats[row]
        request = seat.request
        if launched.drafts:
            request.speculation.draft_steps += drafted
        if self._trusts and drafted:
            commit = keep_trusted(request, tokens)
            self._made.append(Progress(request, commit, len(commit.token_ids)))
            return Outcome(seat.slot, 0, 0, list(commit.token_ids))
        depth = launched.trees.depths[row] if launched.trees else None
        own = take_tokens(request, tokens, drafted, len(tokens) - 1, depth)
        self._made.append(own)
        if self._lossy and drafted:
            request.speculation.relaxed += min(own.kept, int(launched.letter.relaxed[row]))
        kept = list(own.taken.token_ids)
        if self._trees and launched.trees:
            return self._trees.outcome(row, seat.slot, drafted, own.kept, kept)
        return Outcome(seat.slot, drafted, own.kept, kept)

    def _give_up(self, seat: Seat, drafted: int) -> None:
        """Ends a broken request, unless its draft may be to blame: that is gone, and a plain step will show."""
        if drafted:
            self.doubtful = True
            return
        request = seat.request
        request.error = not_finite(seat.slot, 0, self._mirror.length(seat.slot))
        self._made.append(Progress(request, request.committer.abort(), 0))

    def _learn(self, outcomes: list[Outcome], launched: Launched) -> None:
        parts = self._parts
        view = RowView(parts.rows, tuple(outcome.slot for outcome in outcomes))
        if parts.pacer.in_step and launched.drafts:
            parts.pacer.in_step.fleet.observe(view, outcomes)
        if not self._paced:
            parts.pacer.observe(view, outcomes)
        for outcome in outcomes:
            self._mirror.commit(outcome.slot, outcome.tokens)
        # One that reads late hears of what came after its drafts: nothing of a plain step that nobody drafted for.
        if not parts.drafter.needs_forward and (launched.hosted or not parts.drafter.reads_late):
            parts.drafter.absorb(view, outcomes)

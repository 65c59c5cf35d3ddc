"""What drafts would bring while a batch rests, without asking for any: rounds replayed on the text that is written.

Drafts do not change the text. So where the host waits for a report it proposes what it would have been asked for, for
one row a step in turn, cuts that as the pacer would, and when the row's turn comes again counts what a step would have
written of it (`pacing.auto_shadow` does the same on a CPU). A text is read ahead by it, too, in pieces.

A unit of work is short, and there is at most one a step: other threads of a server want the interpreter as well. It is
done while a step that was launched is running and the next one is waiting behind it, and only where the host waits for
reports much longer than a unit takes: where plain steps keep it busy, each unit would make them later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.reader import LateDrafter, LateReader, late_of
from glimpse.drafting.tree import HostSource
from glimpse.engine.device.asking import Asking
from glimpse.engine.device.prompt_topk import PIECE, PromptTopK
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.watched import WatchedAsking
from glimpse.engine.parts import Parts
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.proposals import Floats, Ints, Proposal
from glimpse.pacing.worth import StepPrices

ALIKE = 4
"""Rows by which nodes are priced for a batch: the cost of looking at all grows with it."""
EVEN = 8
"""Units over which their time is averaged."""
PRICED = 32
"""Rounds after which prices are looked at anew, which takes as long as a round."""
PATIENCE = 128
"""Steps without time to spare after which a unit is done all the same: else nothing would be known."""
ROOM, UNIT = 2.0, 2e-4
"""Units that have to fit into what the host waits a step, as other threads and collections take of it too; seconds of a
unit before one was done."""
SHARE, HURRIED = 0.1, 0.002
"""Of the time, what units may take where the engine is stepped by a thread of its own: the others answer requests, and
each time that they want the interpreter they wait for a unit's end. And what those may take for which there is no time
to spare, as all rows wait for them."""
Told = Callable[[int, int, int], None]
"""told(number, tokens, passed): after the last `passed` tokens of a request's text a step with drafts would have
written the first `tokens` of them at once."""


@dataclass(frozen=True, slots=True)
class _Round:
    """A draft that nobody verifies."""

    begin: int
    """Tokens of the row's text before it."""
    proposal: Proposal
    gains: Floats
    """[n] P(the text runs through each node)."""
    nodes: dict[tuple[int, int], int]
    """(parent, token) -> node, of the nodes that would be verified."""
    inner: frozenset[int]
    """Nodes that have a child among them, and -1 if there is any node."""

    @classmethod
    def of(cls, begin: int, proposal: Proposal, gains: Floats, kept: Ints) -> _Round:
        """Of which the nodes `kept` would be verified."""
        nodes = proposal.children(kept)
        return cls(begin, proposal, gains, nodes, frozenset(parent for parent, _ in nodes))

    def written(self, text: Sequence[int]) -> int | None:
        """How many tokens a step would have written, when `text` came; None while that is not known."""
        node, count = -1, 0
        while node in self.inner:
            if count == len(text):
                return None
            count += 1
            found = self.nodes.get((node, text[count - 1]))
            if found is None:
                return count
            node = found
        return count + 1 if count < len(text) else None


class Shadows:
    """One round for each row of a batch that rests."""

    def __init__(
        self, rows: Rows, drafter: LateDrafter, pacer: MarginalPacer, most: int, topk: PromptTopK | None, told: Told
    ) -> None:
        """`most`: nodes that a tree is cut to; `topk`: what knows of prompts that the drafter was not told."""
        self._rows, self._drafter, self._pacer, self._most = rows, drafter, pacer, most
        self._topk, self._told = topk, told
        self._tokens, self._lengths = rows.tokens.numpy(), rows.committed_len.numpy()
        self._limits = rows.limit.numpy()
        self._rounds: dict[int, _Round] = {}
        """By slot, the youngest last."""
        self._turn, self._missed = 0, 0
        self._unit, self._took = UNIT, 0.0
        """Seconds of a unit, and of the one that was done in the last step."""
        self._ended = 0.0
        """When the last unit did."""
        self._prices: StepPrices | None = None
        self._size, self._left = 0, 0
        """How many rows prices are for, and the rounds for which they hold."""

    def step(self, seats: Sequence[Seat], waited: float) -> None:
        """A plain step of these rows was launched; `waited`: seconds that the host waited for the last report."""
        spare = waited + self._took >= ROOM * self._unit and not self._crowds(SHARE)
        self._missed, self._took = 0 if spare else self._missed + 1, 0.0
        if spare or (self._missed >= PATIENCE and not self._crowds(HURRIED)):
            self._missed = 0
            self._turn = (self._turn + 1) % len(seats)
            begun = time.perf_counter()
            self._work(seats, seats[self._turn])
            self._ended = time.perf_counter()
            self._took = self._ended - begun
            self._unit += (self._took - self._unit) / EVEN

    def leave(self, slot: int) -> None:
        """Another request will have the row."""
        self._rounds.pop(slot, None)

    def _crowds(self, share: float) -> bool:
        """Whether another unit now would take more than a share of an interpreter that others use."""
        alone = threading.current_thread() is threading.main_thread()
        return not alone and time.perf_counter() - self._ended < self._unit / share

    def _work(self, seats: Sequence[Seat], seat: Seat) -> None:
        """A unit of work for one row."""
        slot, reader = seat.slot, self._drafter.readers[seat.slot]
        if slot in self._rounds and not self._judged(seat, reader):
            return
        if self._topk and self._topk.tell_piece(slot):
            return
        length = int(self._lengths[slot])
        reader.read(self._tokens[slot, :length], PIECE)
        if reader.position == length:
            self._begin(seats, slot, reader)

    def _judged(self, seat: Seat, reader: LateReader[HostSource]) -> bool:
        """Whether a row's round has ended; then all learn of it."""
        slot, made = seat.slot, self._rounds[seat.slot]
        text = self._tokens[slot, made.begin : self._lengths[slot]].tolist()
        count = made.written(text)
        if count is None:
            return False
        del self._rounds[slot]
        self._pacer.trust_of(slot).learn(made.proposal, text[:count])
        reader.judge(text)
        self._told(seat.request.arrival, count, len(text))
        return True

    def _begin(self, seats: Sequence[Seat], slot: int, reader: LateReader[HostSource]) -> None:
        """A new round of a row that was read."""
        begin = int(self._lengths[slot])
        depth = min(self._rows.max_draft, self._pacer.most, int(self._limits[slot]) - begin - 1)
        prices = self._priced(seats) if depth > 0 else None
        if prices is None:
            return
        nodes = self._drafter.nodes(len(seats))
        proposal = Proposal.of_tree(reader.look(nodes, depth))
        gains = proposal.along(self._pacer.trust_of(slot).chances(proposal))
        kept = prices.first(self._like(gains, prices.rows, nodes))[: self._most]
        self._rounds[slot] = _Round.of(begin, proposal, gains, kept)

    def _priced(self, seats: Sequence[Seat]) -> StepPrices | None:
        """What steps of these rows cost; None where it is not known what plain ones take."""
        self._left -= 1
        if self._prices is None or self._left < 0 or self._size != len(seats):
            rows = RowView(self._rows, tuple(seat.slot for seat in seats))
            self._prices = self._pacer.prices(rows, min(len(rows), ALIKE), self._drafter.nodes(len(rows)))
            self._size, self._left = len(seats), PRICED
        return self._prices

    def _like(self, gains: Floats, count: int, nodes: int) -> list[Floats]:
        """So many rows: one whose nodes have the chances `gains`, those looked at last, and where there are none yet
        more like the first. Of rounds begun in a smaller batch, which had larger trees, the likeliest `nodes`."""
        others = [own.gains[:nodes] for own in islice(reversed(self._rounds.values()), count - 1)]
        return [gains, *others, *[gains] * (count - 1 - len(others))]


def shadows_of(parts: Parts, asking: Asking | None, most: int, topk: PromptTopK | None) -> Shadows | None:
    """Those that tell `asking`, where it listens: where sources can look at drafts and nodes are priced."""
    drafter, pacer = late_of(parts.drafter), parts.pacer
    if drafter is None or not isinstance(asking, WatchedAsking) or not isinstance(pacer, MarginalPacer):
        return None
    return Shadows(parts.rows, drafter, pacer, most, topk, asking.foretold)

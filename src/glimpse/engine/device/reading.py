"""Prompts being read: a bounded part of them in each step, so that running rows go on meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from torch import Tensor

from glimpse.cache.rows import Rows
from glimpse.engine.device.bitwise import BitwiseReader
from glimpse.engine.device.core import Core
from glimpse.engine.device.graphs import Graphs, Step
from glimpse.engine.device.mail import Mark, upload
from glimpse.engine.device.prefill import CHUNK, QUERIES, Scores, chunk_of, read, summed
from glimpse.engine.device.prompt_graphs import PromptGraphs
from glimpse.engine.device.prompt_topk import PromptTopK
from glimpse.engine.device.seats import Seat, Seats
from glimpse.engine.device.tails import LONGEST, MOST, TailReader
from glimpse.engine.request import Request
from glimpse.engine.watch import Did, Seen, Watch

HELD = 1 << 27
"""Bytes of hidden states that are kept until a prompt has its first token: 16,000 tokens of an 8B model."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Parts of prompts whose successors the drafter wants."""

    seats: list[Seat]
    texts: list[Tensor]
    """Of each [n] int64, on the host."""
    hidden: Tensor
    """[all, hidden] after the final norm, row after row."""


class Reader:
    """Reads prompts in the order they came, with what was written before if anything; then they take their seats."""

    def __init__(
        self, core: Core, rows: Rows, seats: Seats, graphs: Graphs, topk: PromptTopK | None = None,
        hears: Callable[[Seat], bool] = lambda seat: True, recalls: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """`topk`: where the drafter wants the successors of prompts; `hears`: whether a request's are worth their cost
        now; `recalls`: whether the rows draft for themselves now, and go by what prompts made important."""
        self._core, self._rows, self._seats, self._topk, self._hears = core, rows, seats, topk, hears
        self._recalls = recalls
        self._bitwise = BitwiseReader(core) if core.settings.bitwise else None
        self._most = CHUNK if self._bitwise is None else self._bitwise.most
        # Bits are those of one reader only; where heads are compared with one another, the exact weights are wanted.
        self._tails = None if self._bitwise or core.trust else TailReader(core, graphs)
        self._firsts = None if self._bitwise else PromptGraphs(core, graphs)
        self.queue: deque[Seat] = deque()
        self.begun = False
        """Whether a row has been read to its end in this step: the next token is its first."""
        self._unheard: deque[_Read] = deque()
        self._last: Mark | None = None
        self._worked = False
        self.watch: Watch | None = None

    def ready(self) -> Iterator[Step]:
        """What prompts are read with, to be captured."""
        return chain.from_iterable(part.ready() for part in (self._tails, self._firsts) if part is not None)

    def add(self, seat: Seat) -> None:
        """One more to read."""
        self.queue.append(seat)
        if self._topk:
            self._topk.forget(seat.slot)

    def leave(self, request: Request) -> None:
        """Nobody wants a request any more."""
        for seat in [seat for seat in self.queue if seat.request is request]:
            self.queue.remove(seat)
        self._unheard = deque(read for read in self._unheard if all(seat.request is not request for seat in read.seats))

    def follow(self) -> None:
        """The next step has been launched, with the first tokens of what was read: finds what comes after the tokens of
        these prompts, which takes as much as two layers and more. Long prompts that are still being read wait for
        their first token, too, as long as there is room."""
        while self._unheard and (self._unheard[0].seats[0] not in self.queue or self._held > HELD):
            read, self._worked = self._unheard.popleft(), True
            assert self._topk is not None
            self._topk.note([seat.slot for seat in read.seats], read.texts, read.hidden)

    def took(self) -> bool:
        """Whether the device was given something to do here since this was asked last."""
        worked, self._worked = self._worked, False
        return worked

    @property
    def _held(self) -> int:
        return sum(read.hidden.nbytes for read in self._unheard)

    def step(self) -> None:
        """Reads up to `CHUNK` prompt tokens, or a part of one in the bitwise mode."""
        have, self.begun = 0, False
        while self.queue and (have == 0 or have + self._next() <= self._most):
            short = self._short(self._most - have)
            have += self._read_short(short) if short else self._read(self.queue[0])

    def _left(self, seat: Seat) -> int:
        """Tokens of a text that no forward has read yet."""
        return seat.request.length - int(self._rows.verified_len[seat.slot])

    def _next(self) -> int:
        """Tokens of the next part."""
        return chunk_of(self._left(self.queue[0]), self._most)

    def _short(self, room: int) -> list[Seat]:
        """Those first in the queue of which little is left, as many as one forward of `room` tokens takes."""
        found, room = list[Seat](), min(room, MOST)
        for seat in self.queue if self._tails else ():
            left = self._left(seat)
            if left > min(LONGEST, room):
                break
            found.append(seat)
            room -= left
        return found

    def _read_short(self, seats: list[Seat]) -> int:
        assert self._tails is not None
        counts, lengths = [self._left(seat) for seat in seats], [seat.request.length for seat in seats]
        starts = [length - count for length, count in zip(lengths, counts, strict=True)]
        self._begin(seats)
        self._seats.lay(seats, self._rows)
        hidden = self._tails.read(len(self._seats.taken), starts, counts)
        texts = [
            self._rows.tokens[seat.slot, start : start + count]
            for seat, start, count in zip(seats, starts, counts, strict=True)
        ]
        self._hold(seats, texts, hidden)
        for seat, length in zip(seats, lengths, strict=True):
            self._rows.verified_len[seat.slot] = length - 1  # The first decoding step reads the last token again.
            self.queue.popleft()
        self.begun = True
        scored = [length - min(count, QUERIES) for length, count in zip(lengths, counts, strict=True)]
        self._seats.sit(seats, scored if self._recalls() else None)
        return sum(counts)

    def _read(self, seat: Seat) -> int:
        core, length, count = self._core, seat.request.length, self._next()
        start = int(self._rows.verified_len[seat.slot])
        stop, last = start + count, start + count == length
        text = self._rows.tokens[seat.slot, start:stop]
        recalls = core.drafts and self._recalls()
        scores = self._scores() if last and recalls else None
        self._begin([seat])
        if self._bitwise is None:
            hidden = self._forward(seat, text, start, scores)
            self._hold([seat], [text], hidden)
        else:
            self._bitwise.read(seat.sequence, upload(text, core.decoder.device), start, scores)
        # The first decoding step reads the last token again.
        self._rows.verified_len[seat.slot] = stop - last
        if last:
            self.queue.popleft()
            self._seats.lay([seat], self._rows)
            self._seats.sit([seat], [length - 1] if recalls else None)
            self.begun = True
        return count

    def _hold(self, seats: list[Seat], texts: list[Tensor], hidden: Tensor) -> None:
        """What was read of some prompts, and became of it, which lies where the next part's will."""
        if self._topk and self._hears(seats[0]):
            self._unheard.append(_Read(seats, [text.clone() for text in texts], hidden.clone()))

    def _forward(self, seat: Seat, text: Tensor, start: int, scores: Scores | None) -> Tensor:
        """Hidden states of a part of a prompt, [n] int64 on the host, from position `start` on."""
        core, extents = self._core, seat.sequence.extents(0, start + len(text))
        size = self._firsts.size_for(len(text)) if self._firsts and not start else None
        if self._firsts and size:
            return self._firsts.read(size, extents, text, scores)
        return read(core.forward, core.pool, extents, upload(text, core.decoder.device), start, scores)

    def _begin(self, seats: list[Seat]) -> None:
        begin, none, self._worked = self._throttle(), [0] * len(seats), True
        if self.watch is not None:
            slots, requests = [seat.slot for seat in seats], [seat.request for seat in seats]
            self.watch(Seen(begin, None, slots, requests, [Did.PREFILL] * len(seats), none, none))

    def _scores(self) -> Scores:
        row, recall = len(self._seats.taken), self._core.recall
        fuse = summed if self._core.trust is None else self._core.trust.fuse
        return Scores(recall.fresh[:, row], recall.reference[:, row], fuse)

    def _throttle(self) -> Mark:
        """Waits for the part before the last one, so that what is said to be read nearly is; returns a mark."""
        if self._last is not None:
            self._last.wait()
        self._last = Mark(self._core.decoder.device)
        return self._last

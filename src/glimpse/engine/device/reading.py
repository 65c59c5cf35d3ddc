"""Prompts being read: a bounded part of them in each step, so that running rows go on meanwhile."""

from __future__ import annotations

from collections import deque

from glimpse.cache.rows import Rows
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import Mark, upload
from glimpse.engine.device.prefill import CHUNK, Scores, chunk_of, read
from glimpse.engine.device.seats import Seat, Seats
from glimpse.engine.watch import Did, Seen, Watch


class Reader:
    """Reads prompts in the order they came, with what was written before if anything; then they take their seats."""

    def __init__(self, core: Core, rows: Rows, seats: Seats) -> None:
        self._core, self._rows, self._seats = core, rows, seats
        self.queue: deque[Seat] = deque()
        self._last: Mark | None = None
        self.watch: Watch | None = None

    def step(self) -> None:
        """Reads up to `CHUNK` prompt tokens."""
        have = 0
        while self.queue and (have == 0 or have + self._next() <= CHUNK):
            have += self._read(self.queue[0])

    def _next(self) -> int:
        """Tokens of the next part."""
        seat = self.queue[0]
        return chunk_of(seat.request.length - int(self._rows.verified_len[seat.slot]))

    def _read(self, seat: Seat) -> int:
        core, length, count = self._core, seat.request.length, self._next()
        start = int(self._rows.verified_len[seat.slot])
        stop, last = start + count, start + count == length
        tokens = upload(self._rows.tokens[seat.slot, start:stop], core.decoder.device)
        scores = self._scores() if last and core.drafts else None
        begin = self._throttle()
        if self.watch is not None:
            self.watch(Seen(begin, None, [seat.slot], [seat.request], [Did.PREFILL], [0], [0]))
        read(core.forward, core.pool, seat.sequence.extents(0, stop), tokens, start, scores)
        # The first decoding step reads the last token again.
        self._rows.verified_len[seat.slot] = stop - last
        if last:
            self.queue.popleft()
            self._seats.sit(seat, self._rows)
        return count

    def _scores(self) -> Scores:
        row, recall = len(self._seats.taken), self._core.recall
        return Scores(recall.fresh[:, row], recall.reference[:, row])

    def _throttle(self) -> Mark:
        """Waits for the part before the last one, so that what is said to be read nearly is; returns a mark."""
        if self._last is not None:
            self._last.wait()
        self._last = Mark(self._core.decoder.device)
        return self._last

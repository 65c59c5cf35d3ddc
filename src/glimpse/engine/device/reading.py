"""Prompts being read: a bounded part of them in each step, so that running rows go on meanwhile."""

from __future__ import annotations

from collections import deque

from glimpse.cache.rows import Rows
from glimpse.engine.device.bitwise import BitwiseReader
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import Mark, upload
from glimpse.engine.device.prefill import CHUNK, Scores, chunk_of, read
from glimpse.engine.device.prompt_topk import PromptTopK
from glimpse.engine.device.seats import Seat, Seats
from glimpse.engine.watch import Did, Seen, Watch


class Reader:
    """Reads prompts in the order they came, with what was written before if anything; then they take their seats."""

    def __init__(self, core: Core, rows: Rows, seats: Seats, topk: PromptTopK | None = None) -> None:
        """`topk`: where the drafter wants the successors of prompts."""
        self._core, self._rows, self._seats, self._topk = core, rows, seats, topk
        self._bitwise = BitwiseReader(core) if core.settings.bitwise else None
        self._most = CHUNK if self._bitwise is None else self._bitwise.most
        self.queue: deque[Seat] = deque()
        self._last: Mark | None = None
        self.watch: Watch | None = None

    def step(self) -> None:
        """Reads up to `CHUNK` prompt tokens, or a part of one in the bitwise mode."""
        have = 0
        while self.queue and (have == 0 or have + self._next() <= self._most):
            have += self._read(self.queue[0])

    def _next(self) -> int:
        """Tokens of the next part."""
        seat = self.queue[0]
        return chunk_of(seat.request.length - int(self._rows.verified_len[seat.slot]), self._most)

    def _read(self, seat: Seat) -> int:
        core, length, count = self._core, seat.request.length, self._next()
        start = int(self._rows.verified_len[seat.slot])
        stop, last = start + count, start + count == length
        text = self._rows.tokens[seat.slot, start:stop]
        tokens = upload(text, core.decoder.device)
        scores = self._scores() if last and core.drafts else None
        begin = self._throttle()
        if self.watch is not None:
            self.watch(Seen(begin, None, [seat.slot], [seat.request], [Did.PREFILL], [0], [0]))
        if self._bitwise is None:
            hidden = read(core.forward, core.pool, seat.sequence.extents(0, stop), tokens, start, scores)
            if self._topk:
                self._topk.tell(seat.slot, text, hidden)
        else:
            self._bitwise.read(seat.sequence, tokens, start, scores)
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

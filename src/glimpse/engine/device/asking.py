"""Whether a batch's drafts, which are made on the host, are worth the device's waiting for them.

A step with drafts from the host begins when the step before has been read and drafts have been made; a plain step is
launched while the one before still runs. So drafting costs the host's time besides what is verified, and where a step
takes half a millisecond that is more than most drafts bring. Both are measured, from the end of one step to the end of
the next, and while drafts bring less, the batch steps plainly for a while and then asks again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from statistics import fmean, median

from glimpse.engine.device.mail import Mark
from glimpse.engine.device.settle import Launched

WORTH = 0.97
"""Speed of asking over not asking, below which it rests: drafts come and go, and asking is how they are found."""
FIRST, LAST = 8, 64
"""Plain steps of a rest: doubled as long as asking is not worth it."""
KNOWN, TRIES = 3, 2
"""Plain steps that say what one takes; steps with drafts between two rests."""
BEGIN = 8
"""Steps with drafts before the first rest."""


@dataclass(slots=True)
class _Steps:
    """The last steps of one kind."""

    seen: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return fmean(tokens for tokens, _ in self.seen) / self.seconds

    @property
    def seconds(self) -> float:
        """Of one."""
        return median(seconds for _, seconds in self.seen)


@dataclass(slots=True)
class _Size:
    """Batches of about one size."""

    plain: _Steps = field(default_factory=_Steps)
    asked: _Steps = field(default_factory=_Steps)
    left: int = BEGIN
    """Steps with drafts until it is asked whether to rest."""
    span: int = FIRST

    @property
    def known(self) -> bool:
        """Whether both kinds of step have been seen."""
        return len(self.plain.seen) >= KNOWN and len(self.asked.seen) >= TRIES


class Asking:
    """When to ask the host for drafts, and when to rest."""

    def __init__(self) -> None:
        self._sizes: defaultdict[int, _Size] = defaultdict(_Size)
        self._rest, self._rows = 0, tuple[int, ...]()
        self.asked = False
        """What `asks` said last."""
        self._end: Mark | None = None

    @property
    def resting(self) -> bool:
        """Whether the next step is plain, as long as the rows stay the same."""
        return self._rest > 0

    def rests(self, rows: tuple[int, ...]) -> bool:
        """Whether the next step of these rows is plain, so that nothing has to be read for it."""
        return self.resting and rows == self._rows

    def asks(self, rows: tuple[int, ...]) -> bool:
        """Whether the step that is launched now for these rows should have drafts."""
        if rows != self._rows:
            self._rest, self._rows = 0, rows
        size = self._size(len(rows))
        if not self._rest and size.left <= 0:
            self._decide(size)
        self.asked = self._rest <= 0
        self._rest -= not self.asked
        size.left -= self.asked
        return self.asked

    def skip(self) -> None:
        """The step that is launched now is plain, whatever `asks` would say."""
        self.asked = False

    def interrupted(self) -> None:
        """The device has done something else: the next step's time says nothing."""
        self._end = None

    def wake(self) -> None:
        """The next step asks."""
        self._rest = 0

    def speed(self, rows: int) -> float | None:
        """Speed of steps with drafts over plain ones, where both have been seen."""
        size = self._size(rows)
        return size.asked.rate / size.plain.rate if size.known else None

    def learn(self, launched: Launched) -> None:
        """A step has been read."""
        if launched.drafts:
            self.interrupted()
            return
        end, before = launched.timed[-1].end, self._end
        self._end = end
        if before is not None and not launched.ran.fresh:
            size = self._size(len(launched.seats))
            steps = size.asked if launched.asked else size.plain
            steps.seen.append((int(launched.letter.counts[: len(launched.seats)].sum()), end.since(before)))

    def _size(self, rows: int) -> _Size:
        return self._sizes[rows.bit_length()]

    def _decide(self, size: _Size) -> None:
        if len(size.plain.seen) < KNOWN:
            self._rest = KNOWN + 1  # the first one waits
            return
        size.left = TRIES
        if len(size.asked.seen) >= TRIES and size.asked.rate < WORTH * size.plain.rate:
            self._rest, size.span = size.span, min(2 * size.span, LAST)
        else:
            size.span = FIRST

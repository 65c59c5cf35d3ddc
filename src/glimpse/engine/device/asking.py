"""Whether a batch's drafts, which are made on the host, are worth the device's waiting for them.

A step with drafts from the host begins when the step before has been read and drafts have been made; a plain step is
launched while the one before still runs. So drafting costs the host's time besides what is verified, and where a step
takes half a millisecond that is more than most drafts bring. Both are measured, from the end of one step to the end of
the next, and while drafts bring less, the batch steps plainly for a while and then asks again.

What a few steps brought says little: a text that yields 1.8 tokens a step has yielded 1 in each of the first four
often enough. So drafts are given the benefit of the doubt: by twice the error of their mean and, while few steps were
seen, by one step more in which they are thought to have brought much. What a step takes is known sooner. A new text
begins anew.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from statistics import fmean, median, variance

from glimpse.engine.device.mail import Mark
from glimpse.engine.device.settle import Launched

WORTH = 0.95
"""Speed of asking over not asking, below which it rests: drafts come and go, and asking is how they are found."""
FIRST, LAST = 4, 64
"""Plain steps of a rest. It is doubled as long as asking is not worth it."""
MOST_SHARE, SHARE = 0.05, 0.01
"""Of the time that asking takes between the first rests of a text and between the longest, where it brings nothing: the
dearer a step with drafts, the longer they are."""
HOPED = 3.0
"""Times the tokens of a plain step that one more step with drafts is thought to bring, until enough are seen."""
DOUBTS = 2
"""Errors of their mean by which drafts may bring more than was seen of them."""
SEEN = 16
"""Steps of a kind that are remembered, and are enough."""
KNOWN, TRIES = 3, 2
"""Plain steps that say what one takes; steps with drafts between two rests."""
BEGIN = 8
"""Steps with drafts before the first rest."""


@dataclass(slots=True)
class _Steps:
    """The last steps of one kind."""

    tokens: deque[int] = field(default_factory=lambda: deque(maxlen=SEEN))
    times: deque[float] = field(default_factory=lambda: deque(maxlen=SEEN))

    def add(self, tokens: int, seconds: float) -> None:
        """One more."""
        self.tokens.append(tokens)
        self.times.append(seconds)

    @property
    def seconds(self) -> float:
        """Of one."""
        return median(self.times)

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return fmean(self.tokens) / self.seconds

    def hope(self, plain: float) -> float:
        """The most tokens per second that they may well bring, where a plain step brings `plain` tokens."""
        count = len(self.tokens)
        doubt = (variance(self.tokens) / count) ** 0.5 if count > 1 else 0.0
        hoped = fmean(self.tokens) if count == SEEN else (sum(self.tokens) + HOPED * plain) / (count + 1)
        return (hoped + DOUBTS * doubt) / self.seconds


@dataclass(slots=True)
class _Size:
    """Batches of about one size."""

    plain: _Steps = field(default_factory=_Steps)
    asked: _Steps = field(default_factory=_Steps)
    left: int = BEGIN
    """Steps with drafts until it is asked whether to rest."""
    span: int = FIRST
    """Plain steps of the next rest, if asking is as dear as then."""

    def begin(self) -> None:
        """Other texts are written now: what steps take is known still, but not what drafts bring."""
        self.asked.tokens.clear()
        self.span = FIRST

    @property
    def known(self) -> bool:
        """Whether both kinds of step have been seen."""
        return len(self.plain.times) >= KNOWN and len(self.asked.tokens) >= TRIES

    def rest(self) -> int:
        """Plain steps until it asks again: twice as many as the last time."""
        extra = TRIES * max(0.0, self.asked.seconds / self.plain.seconds - 1)
        least, most = (max(FIRST, min(LAST, int(extra / share))) for share in (MOST_SHARE, SHARE))
        found = min(max(self.span, least), most)
        self.span = 2 * found
        return found


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
        """Whether the step that is launched now for these rows should have drafts. A row's number is its request's."""
        size = self._size(len(rows))
        self._turn_to(rows, size)
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
            steps.add(int(launched.letter.counts[: len(launched.seats)].sum()), end.since(before))

    def _size(self, rows: int) -> _Size:
        return self._sizes[rows.bit_length()]

    def _turn_to(self, rows: tuple[int, ...], size: _Size) -> None:
        """These rows are asked for now."""
        if rows != self._rows:
            if 2 * len(set(rows) & set(self._rows)) < len(rows):
                size.begin()
            self._rest, self._rows = 0, rows

    def _decide(self, size: _Size) -> None:
        if len(size.plain.times) < KNOWN:
            self._rest = KNOWN + 1  # the first one waits
            return
        size.left = TRIES
        if size.known and size.asked.hope(fmean(size.plain.tokens)) < WORTH * size.plain.rate:
            self._rest = size.rest()
        else:
            size.span = FIRST

"""Whether a batch's drafts, which are made on the host, are worth the device's waiting for them.

A step with drafts from the host begins when the step before has been read and drafts have been made; a plain step is
launched while the one before still runs. So drafting costs the host's time besides what is verified, and where a step
takes half a millisecond that is more than most drafts bring. Both are measured, from the end of one step to the end of
the next, and while drafts bring less, the batch steps plainly for a while and then asks again.

What a step takes is known soon, and for each size of batch. What drafts bring is a matter of the texts (`Texts`): of
those that run now, as far as their own steps say, else of those before them. So where drafts have paid a new text is
asked for at once, and where they have not it is found by tries, whose share of the time is bounded. Rows that come and
go change nothing but what is expected.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from glimpse.cache.rows import RowView
from glimpse.drafting.reader import LateDrafter, unread
from glimpse.engine.device.between import SETTLED, Between
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.settle import Launched
from glimpse.engine.device.texts import SEEN, Texts

WORTH = 0.95
"""Speed of asking over not asking, below which it rests: drafts come and go, and asking is how they are found."""
FIRST, LAST = 4, 512
"""Plain steps of a rest. It is doubled as long as asking is not worth it."""
MOST_SHARE, SHARE = 0.05, 0.01
"""Of the time that tries cost between the first rests and between the longest: the dearer a step with drafts, the
longer they are."""
DOUBTS, UNLIKE = 0.5, 1.0
"""Errors of what is expected by which drafts may bring more: then they are asked for, and then rests of new texts begin
with the shortest."""
TIMED, PLAIN = 8, 64
"""Steps whose times are remembered, of those with drafts and of others: tries are few, and what they took at first may
not hold; where drafts are asked for at most steps, plain ones come in haste, between them."""
NEW = 0
"""A number that no request has: of a text that nothing is known of."""
KNOWN, TRIES = 3, 2
"""Plain steps that say what one takes; steps with drafts between two rests."""
LOOK = SETTLED + KNOWN
"""Plain steps of rows of which that is not known yet."""
BEGIN = 8
"""Steps with drafts before an engine's first rest."""


def numbers_of(seats: Sequence[Seat]) -> tuple[int, ...]:
    """Of the requests in these seats."""
    return tuple(seat.request.arrival for seat in seats)


def unread_of(seats: Sequence[Seat], rows: RowView, drafter: LateDrafter | None) -> frozenset[int]:
    """Of those of these requests, in these rows, whose texts the drafter has not read to their ends."""
    waiting = unread(drafter.readers, rows) if drafter else ()
    return frozenset(seat.request.arrival for seat in seats if seat.slot in waiting)


@dataclass(slots=True)
class _Steps:
    """The last steps of one kind."""

    tokens: deque[int] = field(default_factory=lambda: deque(maxlen=SEEN))
    times: deque[float] = field(default_factory=lambda: deque(maxlen=TIMED))

    @classmethod
    def many(cls) -> _Steps:
        """Of a kind of which there are enough."""
        return cls(times=deque(maxlen=PLAIN))

    def add(self, tokens: int, seconds: float) -> None:
        """One more."""
        self.tokens.append(tokens)
        self.times.append(seconds)

    def keep(self, count: int) -> None:
        """All but the last `count` are forgotten."""
        for own in (self.tokens, self.times):
            while len(own) > count:
                own.popleft()

    @property
    def seconds(self) -> float:
        """Of one."""
        return median(self.times)

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return fmean(self.tokens) / self.seconds


@dataclass(slots=True)
class _Size:
    """Batches of about one size."""

    plain: _Steps = field(default_factory=_Steps.many)
    asked: _Steps = field(default_factory=_Steps)
    own: _Steps = field(default_factory=_Steps)
    """Steps of rounds that the batch drafts for itself."""
    left: int = BEGIN
    """Steps with drafts until it is asked whether to rest."""
    looked: bool = False
    """Whether it has rested to see what plain steps take."""
    span: int = FIRST
    """Plain steps of the next rest, if asking is as dear as then."""

    @property
    def known(self) -> bool:
        """Whether both kinds of step have been seen."""
        return len(self.plain.times) >= KNOWN and len(self.asked.times) >= TRIES

    @property
    def price(self) -> float:
        """Of a step with drafts, in plain steps."""
        return self.asked.seconds / self.plain.seconds

    def rest(self, loss: float) -> int:
        """Plain steps until it asks again, which loses so many: twice as many as the last time."""
        least, most = (max(FIRST, min(LAST, int(TRIES * loss / share))) for share in (MOST_SHARE, SHARE))
        found = min(max(self.span, least), most)
        self.span = 2 * found
        return found


class Asking:
    """When to ask the host for drafts, and when to rest. A row's number is its request's."""

    doubts = DOUBTS
    """Errors of what is expected by which drafts may bring more."""

    def __init__(self) -> None:
        self._sizes: defaultdict[int, _Size] = defaultdict(_Size)
        self._texts = Texts()
        self._rest, self._rows = 0, tuple[int, ...]()
        self.asked = False
        """What `asks` said last."""
        self._between = Between()
        self._lost = 0.0
        """Plain steps that those with drafts took longer than what they wrote was worth, texts that were read for them
        and all, since the last rest or since they were last found to pay."""
        self.fair = False
        """Whether each row counts for itself, not the batch as a whole: then drafts of few rows that hold all others up
        have to bring those few much. Proportional fairness: what is weighed is the product of the rows' speeds."""

    @property
    def resting(self) -> bool:
        """Whether the next step is plain, as long as the rows stay the same."""
        return self._rest > 0

    def rests(self, rows: tuple[int, ...]) -> bool:
        """Whether the next step of these rows is plain, so that nothing has to be read for it."""
        self._turn_to(rows, self._size(len(rows)))
        return self.resting

    def asks(self, rows: tuple[int, ...]) -> bool:
        """Whether the step that is launched now for these rows should have drafts."""
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

    def wake(self, rows: tuple[int, ...]) -> None:
        """The next steps of these rows ask."""
        size = self._size(len(rows))
        self._turn_to(rows, size)
        self._rest, size.left = 0, TRIES

    def speed(self, rows: tuple[int, ...], doubts: float = 0.0) -> float | None:
        """Speed of steps with drafts over plain ones that is expected of these rows, if drafts bring so many errors
        more than expected; None where it is not known what such steps take."""
        price = self._price(len(rows))
        if price is None:
            return None
        tokens, error = self._texts.tokens(rows, fair=self.fair)
        return (tokens + doubts * error) / (len(rows) * price)

    def plain_seconds(self, rows: int) -> float | None:
        """What a plain step of so many rows takes; None where none was timed."""
        size = self._sizes.get(rows.bit_length())
        return size.plain.seconds if size and size.plain.times else None

    def own_speed(self, rows: int) -> float | None:
        """Speed of rounds that a batch of about so many rows drafts for itself over plain decoding, from the end of a
        step to the end of the next; None where either was not timed."""
        size = self._sizes.get(rows.bit_length())
        if size is None or min(len(size.own.times), len(size.plain.times)) < KNOWN:
            return None
        return size.own.rate / size.plain.rate

    def learn(self, launched: Launched) -> None:
        """A step has been read."""
        counts = launched.letter.counts[: len(launched.seats)].tolist() if launched.verifies else [0]
        telling = self._heard(launched, counts) if launched.asked else True
        wrote = any(counts) or not launched.verifies
        seconds = self._between.seconds(launched, numbers_of(launched.seats), wrote=wrote)
        if seconds is None:
            return
        size = self._size(len(launched.seats))
        if launched.asked and size.plain.times:
            self._lost += seconds / size.plain.seconds - sum(counts) / len(launched.seats)
        if telling and self._between.tells:
            steps = size.own if launched.drafts else size.asked if launched.asked else size.plain
            steps.add(sum(counts), seconds)

    def _heard(self, launched: Launched, counts: list[int]) -> bool:
        """A step with drafts wrote so many tokens of each row; those whose texts were not read teach nothing. Returns
        whether its time says what such steps take: for its first draft a text is read from its first token on."""
        numbers, unread = numbers_of(launched.seats), launched.unread
        known = not unread and all(map(self._texts.knows, numbers))
        for number, count in zip(numbers, counts, strict=True):
            if count and number not in unread:
                self._texts.learn(number, count)
        return known

    def _size(self, rows: int) -> _Size:
        return self._sizes[rows.bit_length()]

    def _price(self, rows: int) -> float | None:
        """Of a step with drafts in plain steps; where batches of this size have not shown it, of the nearest ones."""
        size = rows.bit_length()
        known = [other for other, own in self._sizes.items() if own.known]
        return self._sizes[min(known, key=lambda other: abs(other - size))].price if known else None

    def _turn_to(self, rows: tuple[int, ...], size: _Size) -> None:
        """These rows are asked for now."""
        if rows == self._rows:
            return
        new = 2 * len(set(rows) & set(self._rows)) < len(rows)
        self._texts.keep(rows)
        self._rows = rows
        if self._price(len(rows)) is None:
            return
        size.left = min(size.left, TRIES)
        if new and self._pays(UNLIKE):
            size.span = FIRST
        if not self._rest:
            size.left = 0  # whether to rest is to be asked now
        elif len(size.plain.times) >= KNOWN and self._wakes():
            self._rest, size.left = 0, TRIES

    def _wakes(self) -> bool:
        """Whether what is expected is reason to end a rest."""
        return self._pays(self.doubts)

    def _pays(self, doubts: float) -> bool:
        """Whether drafts are worth asking for if they bring so many errors more than expected, as far as is known."""
        speed = self.speed(self._rows, doubts)
        return speed is None or speed >= WORTH

    def _decide(self, size: _Size) -> None:
        price, speed = self._price(len(self._rows)), self.speed(self._rows)
        if len(size.plain.times) < KNOWN and (price is None or not size.looked):
            self._rest, size.looked = LOOK, True
            return
        size.left = TRIES
        if price is None or speed is None or self._pays(self.doubts):
            size.span, self._lost = FIRST, 0.0
            return
        self._rest = self._pause(size, price * max(0.0, 1 - speed))
        self._lost = 0.0

    def _pause(self, size: _Size, loss: float) -> int:
        """Plain steps of a rest, where a step with drafts loses so many."""
        return size.rest(loss)

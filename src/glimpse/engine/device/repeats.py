"""Which texts have come to repeat themselves, while a batch rests: by the cheapest draft there is, of every step.

A shadow (`Shadows`) says what drafts would bring, but one takes as long as a short plain step: where the host has no
time to spare, a text has ended before it was looked at. Where drafts bring many times what they cost there, texts
repeat themselves, and that shows in what followed the last three tokens where they stood before. So all rows' texts are
followed in one compiled loop, a microsecond a row, that says how many tokens steps with such drafts would have
accepted. (A text's first look reads all of it, 10 ns a token.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import Rows
from glimpse.drafting.compiled import compiled
from glimpse.drafting.hashing import bucket_of
from glimpse.engine.device.asking import Asking
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.watched import WatchedAsking

EVERY = 16
"""Steps from one look at the texts to the next."""
LONGEST = 16
"""Tokens of a draft."""
WINDOW = 16.0
"""Tokens over which what is known of a text's steps fades: what it did before says little of what it does now."""
ENOUGH = 1.25
"""Of them that have to count before anything is said: two, as the last one does wholly."""
BUCKETS = 4096
"""Of a text's table; where two n-grams share one, the later counts."""
Hinted = Callable[[Mapping[int, float]], None]
"""hinted(found): by request, how many draft tokens a step would accept of its text."""

_PLACE, _STEPS, _ACCEPTED = range(3)
_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Table = NDArray[np.int32]


class Repeats:
    """Of the rows of one engine."""

    def __init__(self, rows: Rows, hinted: Hinted) -> None:
        """Compiles the loop where it is not kept from an earlier use."""
        self._rows, self._hinted = rows, hinted
        self._tables = np.zeros((rows.capacity, BUCKETS), np.int32)
        self._known = np.zeros((rows.capacity, 3))
        """By slot: the place in the text that was come to; steps and the tokens that they accepted, as far as they
        still count."""
        self._new = np.ones(rows.capacity, np.bool_)
        self._left = EVERY
        self._read(np.zeros(0, np.int64))

    def step(self, seats: Sequence[Seat]) -> None:
        """A plain step of these rows was launched."""
        self._left -= 1
        if self._left > 0:
            return
        self._left = EVERY
        slots = np.array([seat.slot for seat in seats], np.int64)
        self._read(slots)
        known = zip(seats, self._known[slots].tolist(), strict=True)
        found = {seat.request.arrival: own / steps for seat, (_, steps, own) in known if steps >= ENOUGH}
        if found:
            self._hinted(found)

    def leave(self, slot: int) -> None:
        """Another request will have the row."""
        self._new[slot] = True

    def _read(self, slots: _Ints) -> None:
        own = self._rows.arrays
        _follow(slots, own.tokens, self._rows.prompt_len.numpy(), own.committed, self._tables, self._known, self._new)


def repeats_of(rows: Rows, asking: Asking | None) -> Repeats | None:
    """Those that tell `asking`, where it listens."""
    return Repeats(rows, asking.hinted) if isinstance(asking, WatchedAsking) else None


@compiled
def _follow(
    slots: _Ints, texts: _Ints, prompts: _Ints, lengths: _Ints, tables: _Table, known: _Floats, new: NDArray[np.bool_]
) -> None:
    """Goes on along the text of each slot, which from `prompts` on is judged."""
    for slot in slots:
        text, table, own = texts[slot], tables[slot], known[slot]
        if new[slot]:
            table[:] = 0
            own[:] = 0.0
            new[slot] = False
        place, end = int(own[_PLACE]), int(lengths[slot])
        while place < end:
            count = 0
            if place >= max(3, prompts[slot]):
                count = _matched(text, _seen(text, table, place), place, end)
                if count == end - place and count < LONGEST and count > 0:
                    break  # it may go on
                kept = np.exp(-(count + 1) / WINDOW)
                own[_STEPS] = kept * own[_STEPS] + 1
                own[_ACCEPTED] = kept * own[_ACCEPTED] + count
            for _ in range(min(count + 1, end - place)):
                _enter(text, table, place)
                place += 1
        own[_PLACE] = place


@compiled
def _bucket(text: _Ints, place: int) -> int:
    """Of the three tokens before a place."""
    return bucket_of(bucket_of(text[place - 3], text[place - 2], (1 << 30) - 1), text[place - 1], BUCKETS - 1)


@compiled
def _enter(text: _Ints, table: _Table, place: int) -> None:
    """What stands here is what followed the three tokens before."""
    if place >= 3:
        table[_bucket(text, place)] = place


@compiled
def _seen(text: _Ints, table: _Table, place: int) -> int:
    """Where the three tokens before a place stood last, that is what followed them; 0: nowhere."""
    found = table[_bucket(text, place)]
    if found == 0:
        return 0
    for back in range(1, 4):
        if text[found - back] != text[place - back]:
            return 0
    return int(found)


@compiled
def _matched(text: _Ints, found: int, place: int, end: int) -> int:
    """How many tokens from there on are those from `place` on, of `LONGEST` at most."""
    count = 0
    while found and count < LONGEST and place + count < end and text[found + count] == text[place + count]:
        count += 1
    return count

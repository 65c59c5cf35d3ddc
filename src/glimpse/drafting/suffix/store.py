"""Texts of earlier requests, kept for later ones: bounded, and private to whoever uses the same name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import RowView
from glimpse.drafting.suffix.index import Match, SuffixIndex
from glimpse.errors import ArgumentError

_RECENT = 64
"""Last tokens of a request that are matched in texts added since."""


class SuffixStore:
    """What requests wrote, at most `capacity` tokens of it: two indices, the older dropped when the younger is full.

    So that between half of the capacity and all of it is kept, the latest texts always.
    """

    def __init__(self, name: str, capacity: int) -> None:
        """Raises ArgumentError for an empty name or fewer than 2 tokens."""
        if not name or capacity < 2:
            raise ArgumentError(f"store {name!r} of {capacity} tokens: give a name and at least 2 tokens")
        self.name, self.capacity = name, capacity
        self.indices = [SuffixIndex()]
        """Youngest last."""

    def __len__(self) -> int:
        """Tokens kept, separators included."""
        return sum(map(len, self.indices))

    def add(self, tokens: Sequence[int] | NDArray[np.int64]) -> None:
        """Keeps one text (its end, if it is longer than half of the capacity)."""
        half = self.capacity // 2
        text = np.asarray(tokens, np.int64)[-(half - 1) :] if half > 1 else np.zeros(0, np.int64)
        if len(text) == 0:
            return
        if len(self.indices[-1]) + len(text) + 1 > half:
            self.indices = [self.indices[-1], SuffixIndex()]
        self.indices[-1].read(text)
        self.indices[-1].separate()


def keep_written(store: SuffixStore | None, rows: RowView, slot: int) -> None:
    """Adds what a row has written, not its prompt, to the store, if there is one."""
    if store is not None:
        store.add(rows.history(slot)[int(rows.rows.prompt_len[slot]) :].numpy())


class Follower:
    """One request's longest matches in a store, kept up to date as its text and the store grow."""

    def __init__(self, store: SuffixStore) -> None:
        self._store = store
        self._recent: list[int] = []
        self._seen: list[_Seen] = []

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the request's text."""
        self._seen = [_Seen(seen.index, seen.size, seen.index.follow(seen.match, tokens)) for seen in self._seen]
        self._recent = [*self._recent, *tokens][-_RECENT:]

    def best(self) -> tuple[SuffixIndex, Match]:
        """The longest match, in the younger index on a tie; of length 0 where there is none."""
        known = {id(seen.index): seen for seen in self._seen}
        self._seen = [self._update(index, known.get(id(index))) for index in self._store.indices]
        best = max(reversed(self._seen), key=lambda seen: seen.match.length)
        return best.index, best.match

    def _update(self, index: SuffixIndex, seen: _Seen | None) -> _Seen:
        """A text added to the index since may hold a longer match: the recent tokens are followed anew."""
        if seen is not None and seen.size == len(index):
            return seen
        match = index.follow(Match(0, 0), self._recent)
        if seen is not None and seen.match.length > match.length:
            match = seen.match
        return _Seen(index, len(index), match)


@dataclass(frozen=True, slots=True)
class _Seen:
    index: SuffixIndex
    size: int
    """Of the index, when it was last followed anew."""
    match: Match

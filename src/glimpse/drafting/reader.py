"""Sources that read their row's text when drafts are wanted, not when it is written.

Rows may go on for long without a draft of the host (rests, drafts of the batch's own), and each token read meanwhile
would keep a device waiting that has the next step to be launched. Where the host has time to spare it may read ahead,
piece by piece, and look at drafts that nobody verifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Drafter, TreeDrafter
from glimpse.drafting.tree import EMPTY, HostSource, Tree

AT_ONCE = 32_768
"""Tokens of texts that are read for one step: 18 ms of RACER's."""
Source = TypeVar("Source", bound=HostSource)


@dataclass(slots=True)
class Reader(Generic[Source]):
    """A source that is told of nothing, and how many tokens of its row it has read."""

    source: Source
    position: int = 0

    def catch_up(self, history: Tensor) -> None:
        """Reads what came since; `history` is the row's whole text."""
        if len(history) > self.position:
            self.read(history[self.position :].tolist())

    def read(self, tokens: list[int]) -> None:
        """Reads the row's next tokens."""
        self.source.read(tokens)
        self.position += len(tokens)


@dataclass(slots=True)
class LateReader(Generic[Source]):
    """A source that is told of every token of its row, and reads it with the next draft, or before."""

    source: Source
    position: int = field(default=0, init=False)
    """Tokens of the row that it has read."""
    _looked: bool = field(default=False, init=False)
    """The last draft was one that nobody verifies."""

    def hear(self, tokens: Sequence[int]) -> None:
        """What came after the last draft, if that was verified."""
        if not self._looked:
            self.source.learn(tokens)

    def read(self, history: NDArray[np.int64], most: int) -> int:
        """Reads the next `most` tokens of the row's whole text, or as many as there are; how many it read."""
        text = history[self.position : self.position + most].tolist()
        self.source.read(text)
        self.position += len(text)
        return len(text)

    def propose(self, budget: int, depth: int) -> Tree:
        """A draft behind what was read."""
        self._looked = False
        return self.source.propose(budget, depth)

    def drafted(self, position: int) -> None:
        """Its text was read up to there, and a draft was made behind it, by who does so for many at once."""
        self.position, self._looked = position, False

    def look(self, budget: int, depth: int) -> Tree:
        """The same draft, which nobody verifies."""
        self._looked = True
        return self.source.propose(budget, depth)

    def judge(self, tokens: Sequence[int]) -> None:
        """All that came after the last draft, if that was only looked at."""
        if self._looked:
            self.source.learn(tokens)


class LateDrafter(TreeDrafter, Protocol):
    """A drafter that `reads_late`: its drafts come from sources that read their rows when drafts are wanted."""

    @property
    def readers(self) -> Mapping[int, LateReader[Any]]:
        """By slot."""

    def nodes(self, rows: int) -> int:
        """Of a row's tree, at most, in a batch of `rows`."""


def late_of(drafter: Drafter) -> LateDrafter | None:
    """The drafter, if it is a `LateDrafter`."""
    return cast(LateDrafter, drafter) if drafter.reads_late else None


def trees_of(
    readers: Mapping[int, LateReader[Source]], rows: RowView, room: Sequence[int], budget: int
) -> list[Tree]:  # fmt: skip
    """A tree of at most `budget` nodes for each row, `room[i]` deep.

    No step reads more than `AT_ONCE` tokens; rows that have more to read draft nothing yet (`unread`).
    """
    late, trees = read_on(readers, rows), list[Tree]()
    for slot, depth in zip(rows.slots, room, strict=True):
        trees.append(EMPTY if slot in late else readers[slot].propose(budget, depth))
    return trees


def read_on(readers: Mapping[int, LateReader[Source]], rows: RowView) -> set[int]:
    """Reads what was written of these rows' texts, `AT_ONCE` tokens at most; the slots of those with more to read."""
    left, tokens, late = AT_ONCE, rows.rows.tokens.numpy(), set[int]()
    for slot, length in zip(rows.slots, rows.column(rows.rows.committed_len), strict=True):
        reader = readers[slot]
        if reader.position < length:
            left -= reader.read(tokens[slot, :length], left)
        if reader.position < length:
            late.add(slot)
    return late


def unread(readers: Mapping[int, LateReader[Source]], rows: RowView) -> set[int]:
    """The slots of those rows whose text has not been read to its end."""
    lengths = rows.column(rows.rows.committed_len)
    return {slot for slot, length in zip(rows.slots, lengths, strict=True) if readers[slot].position < length}

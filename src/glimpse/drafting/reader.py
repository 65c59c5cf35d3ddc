"""Sources that read their row's text when drafts are wanted, not when it is written.

Rows may go on for long without a draft of the host (rests, drafts of the batch's own), and each token read meanwhile
would keep a device waiting that has the next step to be launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.tree import EMPTY, HostSource, Tree

AT_ONCE = 32_768
"""Tokens of first texts that are read for one step: 18 ms of RACER's."""
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
    """A source that is told of every token of its row, and reads the row's first text with the first draft."""

    source: Source
    _heard: list[int] | None = field(default=None, init=False)
    """What is not read yet; None: nothing is."""

    @property
    def fresh(self) -> bool:
        """Whether the row's first text is still to be read."""
        return self._heard is None

    def hear(self, tokens: Sequence[int]) -> None:
        """Notes what came, once it was compared with the last draft."""
        self.source.learn(tokens)
        if self._heard is not None:
            self._heard += tokens

    def propose(self, rows: RowView, slot: int, budget: int, depth: int) -> Tree:
        """A draft behind the row's whole text."""
        unread = rows.history(slot).tolist() if self._heard is None else self._heard
        self._heard = []
        self.source.read(unread)
        return self.source.propose(budget, depth)


def trees_of(
    readers: Mapping[int, LateReader[Source]], rows: RowView, room: Sequence[int], budget: int
) -> list[Tree]:  # fmt: skip
    """A tree of at most `budget` nodes for each row, `room[i]` deep.

    No step reads more first texts than `AT_ONCE` tokens, but for one that is longer; rows that have to wait draft
    nothing yet.
    """
    left, trees = AT_ONCE, []
    for slot, depth, length in zip(rows.slots, room, rows.column(rows.rows.committed_len), strict=True):
        reader = readers[slot]
        if reader.fresh:
            if length > left < AT_ONCE:
                trees.append(EMPTY)
                continue
            left -= length
        trees.append(reader.propose(rows, slot, budget, depth))
    return trees

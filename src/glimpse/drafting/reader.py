"""A source that reads its row's text when its drafts are wanted, not when the text is written.

Rows may go on for long without a draft of the host (rests, drafts of the batch's own), and each token read meanwhile
would keep a device waiting that has the next step to be launched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from glimpse.drafting.tree import HostSource, Tree

Source = TypeVar("Source", bound=HostSource)


@dataclass(slots=True)
class Reader(Generic[Source]):
    """A source, and how many tokens of its row it has read."""

    source: Source
    position: int = 0

    def catch_up(self, history: Tensor) -> None:
        """Reads what came since; `history` is the row's whole text."""
        if len(history) > self.position:
            self.read(history[self.position :].tolist())

    def propose(self, history: Tensor, budget: int, depth: int) -> Tree:
        """A draft behind the row's whole text."""
        self.catch_up(history)
        return self.source.propose(budget, depth)

    def read(self, tokens: list[int]) -> None:
        """Reads the row's next tokens."""
        self.source.read(tokens)
        self.position += len(tokens)

"""What a verification of trees tells drafters beside its tokens: the path through each, and the successors."""

from __future__ import annotations

from itertools import accumulate

import torch

from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Outcome, Successors
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_state import TreeState


class TreeReader:
    """Reads the step that was sent last, while the host's rows still hold its trees."""

    def __init__(self, trees: TreeState, rows: Rows) -> None:
        self._trees, self._rows = trees, rows
        self._successors: list[Successors] = []

    def arrived(self, move: TreeMove) -> None:
        """The step has ended."""
        if self._trees.recycles:
            counts = [nodes + 1 for nodes in move.drafted]
            likeliest, chances = self._trees.successors(move.tokens)
            self._successors = [
                Successors(torch.from_numpy(move.fed[begin : begin + count]), likeliest[begin : begin + count],
                           chances[begin : begin + count])
                for begin, count in zip(accumulate(counts, initial=0), counts, strict=False)
            ]  # fmt: skip

    def outcome(self, row: int, outcome: Outcome) -> Outcome:
        """The outcome of device row `row`, with path and successors."""
        return Outcome(
            outcome.slot, outcome.drafted, outcome.accepted, outcome.tokens,
            path=self._trees.path(row, outcome.accepted) if outcome.slot in self._rows.branching else None,
            successors=self._successors[row] if self._trees.recycles else None,
        )  # fmt: skip

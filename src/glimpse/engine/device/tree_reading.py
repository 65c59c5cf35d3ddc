"""What a verification of trees tells drafters beside its tokens: the path through each, and the successors."""

from __future__ import annotations

from itertools import accumulate, chain, pairwise

from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.packed import AnySuccessors, PackedSuccessors
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_state import TreeState


class TreeReader:
    """Reads the step that was sent last, while the host's rows still hold its trees."""

    def __init__(self, trees: TreeState, rows: Rows) -> None:
        self._trees, self._branching = trees, rows.branching
        self._successors: list[AnySuccessors] = []
        self._paths: list[list[int]] = []

    def arrived(self, move: TreeMove, most: int) -> None:
        """The step has ended; it accepted at most `most` nodes of a row."""
        self._paths = self._trees.paths_of(len(move.drafted), most)
        if not self._trees.recycles:
            return
        step = move.fed, self._trees.successors(len(move.fed))
        ends = accumulate(nodes + 1 for nodes in move.drafted)
        self._successors = [PackedSuccessors(step, begin, end) for begin, end in pairwise(chain((0,), ends))]

    def outcome(self, row: int, slot: int, drafted: int, accepted: int, tokens: list[int]) -> Outcome:
        """The outcome of device row `row`, with path and successors."""
        path = self._paths[row][:accepted] if slot in self._branching else None
        return Outcome(
            slot, drafted, accepted, tokens, path=path,
            successors=self._successors[row] if self._trees.recycles else None,
        )  # fmt: skip

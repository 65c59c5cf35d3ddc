"""What a verification of trees tells drafters beside its tokens: how deep they were, the path, the successors."""

from __future__ import annotations

from itertools import accumulate

from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Outcome, Successors
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.draft_check import tree_depth


class TreeReader:
    """Reads the step that was sent last, while the host's rows still hold its trees."""

    def __init__(self, trees: TreeState, rows: Rows) -> None:
        self._trees, self._rows = trees, rows

    def depth(self, slot: int) -> int | None:
        """How many tokens the deepest path of a row's tree has; None: a chain."""
        parents = self._rows.tree(slot)
        return None if parents is None else tree_depth(parents.tolist())

    def outcome(self, move: TreeMove, row: int, outcome: Outcome) -> Outcome:
        """The outcome of device row `row`, with path and successors."""
        slot = outcome.slot
        return Outcome(
            slot, outcome.drafted, outcome.accepted, outcome.tokens,
            path=self._trees.path(row, outcome.accepted) if slot in self._rows.branching else None,
            successors=self._successors(move, row, slot) if self._trees.recycles else None,
        )  # fmt: skip

    def _successors(self, move: TreeMove, row: int, slot: int) -> Successors:
        firsts = list(accumulate((nodes + 1 for nodes in move.drafted), initial=0))
        count, last = move.drafted[row] + 1, int(self._rows.committed_len[slot]) - 1
        fed = self._rows.tokens[slot, last : last + count].clone()
        return Successors(fed, *self._trees.successors(firsts[row], count))

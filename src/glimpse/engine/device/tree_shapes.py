"""Draft trees of all rows looked at in one pass: what `draft_check` and `Rows.put_draft` do node by node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import LEAST
from glimpse.drafting.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
_LEAST = LEAST


@compiled
def survey(
    tokens: Ints, parents: Ints, offsets: Ints, confidence: Floats, room: Ints, most: int, vocab: int,
    ratios: Floats, branches: NDArray[np.bool_],
) -> bool:  # fmt: skip
    """Whether drafts [n] of the rows that `offsets` [R + 1] bound are as `draft_check` wants them.

    Row r may be `room[r]` tokens deep and have `most` nodes, of ids below `vocab`. Writes what stands in
    `Rows.draft_confidence` to `ratios` [n], and which rows branch to `branches` [R].
    """
    depth, reach = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.float64)
    for row in range(len(room)):
        begin, end = offsets[row], offsets[row + 1]
        branches[row] = False
        if end - begin > most:
            return False
        for index in range(begin, end):
            node, parent, token = index - begin, parents[index], tokens[index]
            if parent < -1 or parent >= node or token < 0 or token >= vocab:
                return False
            for other in range(begin, index):
                if parents[other] == parent and tokens[other] == token:
                    return False
            branches[row] |= parent != node - 1
            above = 1.0 if parent < 0 else reach[begin + parent]
            depth[index] = 1 if parent < 0 else depth[begin + parent] + 1
            reach[index] = max(above * confidence[index], _LEAST)
            if depth[index] > room[row]:
                return False
        before = 1.0
        for index in range(begin, end):
            ratios[index] = reach[index] / before if branches[row] else confidence[index]
            before = reach[index]
    return True


@compiled
def deepest(parents: Ints, counts: Ints, depths: Ints) -> None:
    """Writes how many tokens the deepest path of each row has: of `parents` [R, most], the first `counts` [R] nodes."""
    depth = np.zeros(parents.shape[1], np.int64)
    for row in range(len(counts)):
        depths[row] = 0
        for node in range(counts[row]):
            parent = parents[row, node]
            depth[node] = 1 if parent < 0 else depth[parent] + 1
            depths[row] = max(depths[row], depth[node])

"""Draft trees of all rows in one pass: what `draft_check`, `Rows.put_draft` and a copy to the device do node by node.

Arrays named as those of `RowArrays` are these, by slot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import LEAST
from glimpse.drafting.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
_LEAST = LEAST


@compiled
def put_drafts(
    slots: Ints, draft_tokens: Ints, draft_parents: Ints, offsets: Ints, chances: Floats, sources: Bytes, room: Ints,
    vocab: int, tokens: Ints, committed: Ints, counts: Ints, parents: Ints, confidence: Floats, entropy: Floats,
    source: Bytes, branches: NDArray[np.bool_],
) -> bool:  # fmt: skip
    """Puts drafts [n] of the rows in `slots` [R], which `offsets` [R + 1] bound, behind the rows' texts, and says which
    rows branch; False, and nothing done, where they are not as `draft_check` wants them (see `survey`), or not as long
    as their bounds say."""
    if not _bounded(len(room), draft_tokens, draft_parents, offsets, chances, sources):
        return False
    ratios = np.empty(len(draft_tokens), np.float32)
    if not survey(
        draft_tokens, draft_parents, offsets, chances, room, parents.shape[1], vocab, ratios, branches
    ):  # fmt: skip
        return False
    for row in range(len(slots)):
        slot, begin = slots[row], offsets[row]
        count = offsets[row + 1] - begin
        for node in range(count):
            index = begin + node
            tokens[slot, committed[slot] + node] = draft_tokens[index]
            parents[slot, node], confidence[slot, node] = draft_parents[index], ratios[index]
            entropy[slot, node], source[slot, node] = np.nan, sources[index]
        counts[slot] = count
    return True


@compiled
def _bounded(rows: int, tokens: Ints, parents: Ints, offsets: Ints, chances: Floats, sources: Bytes) -> bool:
    """Whether a draft's parts are as long as its bounds say, so that its nodes can be looked at."""
    if len(offsets) != rows + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        return False
    count = offsets[rows]
    return bool(len(tokens) == count and len(parents) == count and len(chances) == count and len(sources) == count)


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
    # Siblings as lists, the youngest first: comparing all nodes of a row takes longer than all else here.
    older, youngest = np.empty(len(tokens), np.int64), np.empty(most + 1, np.int64)
    for row in range(len(room)):
        begin, end = offsets[row], offsets[row + 1]
        branches[row] = False
        if end - begin > most:
            return False
        youngest[: end - begin + 1] = -1
        for index in range(begin, end):
            node, parent, token = index - begin, parents[index], tokens[index]
            if parent < -1 or parent >= node or token < 0 or token >= vocab:
                return False
            other = youngest[parent + 1]
            while other >= 0:
                if tokens[other] == token:
                    return False
                other = older[other]
            older[index], youngest[parent + 1] = youngest[parent + 1], index
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
def copy_out(
    slots: Ints, tokens: Ints, committed: Ints, counts: Ints, parents: Ints, sheet: NDArray[np.int32], fed: Ints,
    depths: Ints,
) -> None:  # fmt: skip
    """Writes the rows' drafts to `sheet` [R or more, 2 most + 1]: the tokens, the parents, and how many are meant.

    Beyond these stands what nobody reads. Also writes to `fed` [R + nodes] what each row feeds: its last committed
    token, then the nodes; and to `depths` [R] how many tokens the deepest path has.
    """
    most, at = sheet.shape[1] // 2, 0
    depth = np.empty(most, np.int64)
    for row in range(len(slots)):
        slot = slots[row]
        length, count = committed[slot], counts[slot]
        fed[at] = tokens[slot, length - 1]
        depths[row] = 0
        for node in range(count):
            parent = parents[slot, node]
            sheet[row, node], sheet[row, most + node] = tokens[slot, length + node], parent
            fed[at + 1 + node] = tokens[slot, length + node]
            depth[node] = 1 if parent < 0 else depth[parent] + 1
            depths[row] = max(depths[row], depth[node])
        sheet[row, 2 * most] = count
        at += count + 1

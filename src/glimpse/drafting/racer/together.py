"""What the sources of a batch do in one call: reading, drafting, and taking over logits, as `RacerSource` does each.

With many rows the calls take longer than what they do, and a device waits for them. Each row has a line: where its
arrays lie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from glimpse.cache.rows import RowView
from glimpse.drafting import frontier
from glimpse.drafting.compiled import compiled
from glimpse.drafting.drafter import Draft, Outcome
from glimpse.drafting.packed import PackedSuccessors
from glimpse.drafting.places import array_at
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.merging import BREADTH, add_successors
from glimpse.drafting.racer.ngrams import FIELDS, HELD, LAST, MARKS, read
from glimpse.drafting.racer.pooling import fill, room_for
from glimpse.drafting.racer.successors import WIDTH, SuccessorTable
from glimpse.drafting.tree import Source

NODES, BUCKETS, ENDS, META, TABLE, IDS = range(6)
"""Of a line: where the automaton's arrays lie and the table's lines, and how many ids the table has."""
LINE = 6
Lines = NDArray[np.int64]
"""[slots, LINE]"""
Sizes = tuple[int, int, int, int]
"""Of every automaton: nodes with the root, buckets, the length of n-grams, that of the shortest context."""
_AUTOMATON = int(Source.AUTOMATON)

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float32]


def enter(line: _Ints, automaton: Automaton, table: SuccessorTable) -> None:
    """Writes where a row's arrays lie; the table only until it grows (`follow`)."""
    line[:TABLE] = [array.ctypes.data for array in automaton.arrays]
    line[TABLE:] = table.place


def follow(line: _Ints, table: SuccessorTable) -> None:
    """Writes where a table lies that may have grown."""
    if line.item(IDS) != len(table.tokens):
        line[TABLE:] = table.place


def sizes_of(automaton: Automaton) -> Sizes:
    """Those of all automata like this one."""
    nodes, buckets, _, _ = automaton.arrays
    return len(nodes), len(buckets), automaton.length, automaton.shortest


def draft(
    rows: RowView, lines: Lines, sizes: Sizes, begins: Sequence[int], room: Sequence[int], budget: int
) -> Draft:  # fmt: skip
    """What `draft_of` makes of the trees of these rows, at most `room[i]` tokens deep, once their texts have been read
    from `begins[i]` on to their ends."""
    own, most, offsets = rows.rows.arrays, len(rows) * budget, np.zeros(len(rows) + 1, np.int64)
    tokens, parents = np.empty(most, np.int64), np.empty(most, np.int64)
    chances, source = np.empty(most, np.float32), np.empty(most, np.uint8)
    count = _draft(
        rows.index, lines, sizes, own.tokens, np.array(begins), own.committed, np.array(room), budget, tokens, parents,
        chances, source, offsets,
    )  # fmt: skip
    arrays = tokens[:count], parents[:count], chances[:count], source[:count]
    laid = [torch.from_numpy(array) for array in arrays]
    return Draft(laid[0], laid[1], tuple(offsets.tolist()), laid[2], laid[3])


def recycle(lines: Lines, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Copies the logits of what was verified in one step; returns those that are to be taken over one by one, if they
    have any: of ids that the table has no room for, in another form, or of one row alone."""
    laid = [outcome.successors for outcome in outcomes if isinstance(outcome.successors, PackedSuccessors)]
    if len(laid) < 2 or len(laid) != len(outcomes) or any(each.step is not laid[0].step for each in laid):
        return list(outcomes)
    slots, left = np.array([outcome.slot for outcome in outcomes]), np.empty(len(laid), np.bool_)
    bounds = np.array([(each.begin, each.end) for each in laid])
    _recycle(lines, slots, bounds, *laid[0].step, left)
    return [outcomes[row] for row in np.flatnonzero(left).tolist()]


@compiled
def _draft(
    slots: _Ints, lines: Lines, sizes: Sizes, texts: _Ints, begins: _Ints, lengths: _Ints, room: _Ints, budget: int,
    tokens: _Ints, parents: _Ints, chances: _Floats, source: NDArray[np.uint8], offsets: _Ints,
) -> int:  # fmt: skip
    """Fills the last five, row after row; returns how many nodes there are."""
    capacity, buckets, length, shortest = sizes
    weights, contexts = np.empty(capacity, np.float64), np.empty((2, length + 1), np.int64)
    heap = room_for(length, room.max())
    keys, items, reach = np.empty(heap), np.empty((heap, frontier.WIDTH), np.int64), np.empty(budget, np.float32)
    at = 0
    for row in range(len(slots)):
        line, slot = lines[slots[row]], slots[row]
        nodes = array_at(line[NODES], (capacity, FIELDS), np.int32)
        ends = array_at(line[ENDS], length + 1, np.int32)
        meta = array_at(line[META], MARKS, np.int64)
        table = array_at(line[TABLE], (line[IDS], 2 * WIDTH), np.int32)
        said = array_at(line[TABLE], (line[IDS], 2 * WIDTH), np.float32)
        hashed = array_at(line[BUCKETS], buckets, np.int32)
        read(nodes, hashed, ends, meta, texts[slot, begins[row] : lengths[slot]])
        depth, end = room[row], at + (budget if room[row] > 0 else 0)
        own = tokens[at:end], parents[at:end], reach[: end - at]
        heap = room_for(length, depth)
        count = fill(
            nodes, ends[meta[HELD]], length, shortest, depth, weights, contexts, keys[:heap], items[:heap], *own
        )  # fmt: skip
        source[at : at + count] = _AUTOMATON
        count = add_successors(
            *own, source[at:end], count, table[:, :WIDTH], said[:, WIDTH:], meta[LAST], BREADTH, depth
        )  # fmt: skip
        for node in range(count):
            parent = parents[at + node]
            chances[at + node] = reach[node] / (reach[parent] if parent >= 0 else np.float32(1))
        at += count
        offsets[row + 1] = at
    return at


@compiled
def _recycle(
    lines: Lines, slots: _Ints, bounds: _Ints, fed: _Ints, rows: NDArray[np.int32], left: NDArray[np.bool_]
) -> None:  # fmt: skip
    """Writes `rows` [n, 16] of the tokens `fed` [n] into the tables of those whose they are (`bounds` [R, 2]);
    `left` [R]: a table has no room for some, and nothing was written there."""
    for row in range(len(slots)):
        line, begin, end = lines[slots[row]], bounds[row, 0], bounds[row, 1]
        table = array_at(line[TABLE], (line[IDS], 2 * WIDTH), np.int32)
        left[row] = begin < end and fed[begin:end].max() >= line[IDS]
        if not left[row]:
            for at in range(begin, end):
                table[fed[at]] = rows[at]

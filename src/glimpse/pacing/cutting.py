"""Cutting drafts to the nodes that pay: all rows in one loop, as a device waits for it.

It does what `Proposals.of`, `believed`, `worthwhile` and `keep_nodes` do one after the other, to the last bit: a call
of a loop costs more than what it does for one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.compiled import compiled
from glimpse.drafting.places import array_at
from glimpse.pacing import judging, keeping
from glimpse.pacing.keeping import keep
from glimpse.pacing.proposals import CELLS, Floats, Ints, Proposals, Trust, look, multiply, trusted_part

_STRAIGHT: Floats = np.zeros(0)


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Market:
    """What the nodes of a batch cost, in seconds."""

    rows: int
    """That decode."""
    start: float
    """Of the step that nodes are added to."""
    plain: float
    """Of a step with no draft at all."""
    node: float
    """Of a node of a row without a text."""
    position: float
    """What each token of a row's text adds to each of its nodes."""
    extra: Floats | None = None
    """[nodes + 1]: what steps of 0, 1, ... nodes take beyond that."""


def cut(rows: RowView, trusts: Sequence[Trust], market: Market) -> tuple[Proposals, list[int]]:
    """Leaves of the drafts of these rows, of which `trusts` know, the nodes that are worth verifying, likeliest first.

    Returns the drafts as they were, and how many nodes of each row are left; a chain stands as it did.
    """
    own, slots, found = rows.rows.arrays, rows.index, Proposals.room_for(rows)
    nodes, sizes, chains = found.nodes, np.zeros(len(slots), np.int64), np.empty(len(slots), np.bool_)
    _cut(
        slots, np.array([trust.place for trust in trusts]), own.committed, own.counts, own.tokens, own.parents,
        own.confidence, own.source, own.entropy, found.ends, nodes.tokens, nodes.parents, nodes.said, nodes.source,
        nodes.depth, market.rows, market.start, market.plain, market.node, market.position,
        _STRAIGHT if market.extra is None else market.extra, sizes, chains,
    )  # fmt: skip
    rows.rows.branching.difference_update(slots[chains].tolist())
    return found, sizes.tolist()


def rehearse() -> None:
    """Runs all loops over drafts once, so that they are compiled before anything is timed: a pacer takes their time for
    its own."""
    keeping.rehearse()
    judging.rehearse()
    rows = Rows(1, 2, 1)
    rows.committed_len[0] = rows.draft_len[0] = 1
    cut(RowView(rows, (0,)), [Trust()], Market(1, 1.0, 1.0, 1.0, 0.0))


@compiled
def _cut(
    slots: Ints, places: Ints, lengths: Ints, counts: Ints, texts: Ints, parents: Ints, ratios: NDArray[np.float32],
    sources: NDArray[np.uint8], entropies: NDArray[np.float32], ends: Ints, tokens: Ints, above: Ints, said: Floats,
    source: Ints, depth: Ints, rows: int, start: float, plain: float, node: float, position: float, extra: Floats,
    sizes: Ints, chains: NDArray[np.bool_],
) -> None:  # fmt: skip
    """`places` [R]: where what was seen of each row lies (`Trust`).

    Fills what `look` does, `sizes` [R], and `chains` [R]: which trees became chains."""
    look(slots, lengths, counts, texts, parents, ratios, sources, ends, tokens, above, said, source, depth)
    gains, prices = np.empty(len(said)), np.empty(len(said))
    begin = 0
    for row in range(len(slots)):
        seen = array_at(places[row], CELLS, np.float64)
        trusted_part(source, depth, said, begin, ends[row], seen, gains)
        prices[begin : ends[row]] = max(node + position * lengths[slots[row]], 1e-12)
        begin = ends[row]
    multiply(above, ends, gains)
    order = np.argsort(-gains / prices, kind="mergesort")
    kept = _sorted_by_row(order[: _best(gains, prices, order, rows, start, plain, extra)], ends, sizes)
    begin = 0
    for row in range(len(slots)):
        slot, own = slots[row], kept[begin : begin + sizes[row]]
        begin += sizes[row]
        chains[row] = not _is_chain(parents[slot, : counts[slot]]) and keep(
            slot, own, lengths, counts, texts, parents, ratios, sources, entropies
        )


@compiled
def _best(
    gains: Floats, prices: Floats, order: Ints, rows: int, start: float, plain: float, extra: Floats
) -> int:  # fmt: skip
    """How many nodes, in this order, bring the most tokens a second; 0 where a plain step brings no fewer."""
    best, rate, gained, spent = 0, -np.inf, 0.0, 0.0
    for at in range(len(order)):
        gained += gains[order[at]]
        spent += prices[order[at]]
        now = (rows + gained) / (start + spent + (extra[at + 1] if len(extra) else 0.0))
        if now > rate:
            best, rate = at + 1, now
    return best if rate > rows / plain else 0


@compiled
def _sorted_by_row(order: Ints, ends: Ints, sizes: Ints) -> Ints:
    """The nodes `order`, counted within their rows, row after row; adds to `sizes` [R] how many each has."""
    owners = np.searchsorted(ends, order, side="right")
    for owner in owners:
        sizes[owner] += 1
    places, kept = np.cumsum(sizes) - sizes, np.empty(len(order), np.int64)
    for at in range(len(order)):
        owner = owners[at]
        kept[places[owner]] = order[at] - (ends[owner - 1] if owner else 0)
        places[owner] += 1
    return kept


@compiled
def _is_chain(parents: Ints) -> bool:
    node = 0
    while node < len(parents) and parents[node] == node - 1:
        node += 1
    return node == len(parents)

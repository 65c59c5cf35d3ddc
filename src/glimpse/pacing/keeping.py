"""Leaving of rows' drafts the nodes that are worth verifying: all rows in one loop, as a device waits for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.compiled import compiled
from glimpse.pacing import proposals
from glimpse.pacing.proposals import Floats, Ints


def keep_nodes(rows: RowView, kept: Sequence[Ints]) -> None:
    """Leaves of each row's draft the nodes `kept` [k], in this order: each after its parent, which stays too."""
    if not rows.slots:
        return
    own, slots = rows.rows.arrays, rows.index
    nodes, sizes = np.concatenate(kept), np.array([len(one) for one in kept])
    chains = np.empty(len(slots), np.bool_)
    _keep(
        slots, nodes, np.cumsum(sizes), own.committed, own.counts, own.tokens, own.parents, own.confidence,
        own.source, own.entropy, chains,
    )  # fmt: skip
    rows.rows.branching.difference_update(slots[chains].tolist())


def rehearse() -> None:
    """Runs the loops once, those over proposals too."""
    proposals.rehearse()
    rows = Rows(1, 2, 1)
    rows.committed_len[0] = rows.draft_len[0] = 1
    keep_nodes(RowView(rows, (0,)), [np.zeros(1, np.int64)])


@compiled
def _keep(
    slots: Ints, nodes: Ints, ends: Ints, lengths: Ints, counts: Ints, texts: Ints, parents: Ints,
    ratios: NDArray[np.float32], sources: NDArray[np.uint8], entropies: NDArray[np.float32], chains: NDArray[np.bool_],
) -> None:  # fmt: skip
    """`nodes`: those kept, row after row; `chains`: which rows' drafts are chains then."""
    begin = 0
    for row in range(len(slots)):
        chains[row] = keep(
            slots[row], nodes[begin : ends[row]], lengths, counts, texts, parents, ratios, sources, entropies
        )  # fmt: skip
        begin = ends[row]


@compiled
def keep(
    slot: int, kept: Ints, lengths: Ints, counts: Ints, texts: Ints, parents: Ints, ratios: NDArray[np.float32],
    sources: NDArray[np.uint8], entropies: NDArray[np.float32],
) -> bool:  # fmt: skip
    """Leaves of one row's draft the nodes `kept`; whether it is a chain then. The arrays are those of `Rows`."""
    begin, count = lengths[slot], counts[slot]
    drafted, above = texts[slot, begin : begin + count].copy(), parents[slot, :count].copy()
    source, entropy = sources[slot, :count].copy(), entropies[slot, :count].copy()
    reach, place = _reach(ratios[slot, :count]), np.full(count, -1)
    parents[slot] = np.arange(-1, parents.shape[1] - 1)
    chain, before = True, 1.0
    for at in range(len(kept)):
        node = kept[at]
        place[node] = at
        texts[slot, begin + at], sources[slot, at] = drafted[node], source[node]
        entropies[slot, at], ratios[slot, at] = entropy[node], reach[node] / before
        parent = -1 if above[node] < 0 else place[above[node]]
        chain, before = chain and parent == at - 1, reach[node]
        parents[slot, at] = parent
    counts[slot] = len(kept)
    return chain


@compiled
def _reach(ratios: NDArray[np.float32]) -> Floats:
    """The running product."""
    reach, product = np.empty(len(ratios)), 1.0
    for node in range(len(ratios)):
        product *= ratios[node]
        reach[node] = product
    return reach

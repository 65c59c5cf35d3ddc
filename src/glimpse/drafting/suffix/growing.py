"""A draft from a match: what followed it, split by how often, and on through the ends of the text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting import frontier
from glimpse.drafting.compiled import compiled
from glimpse.drafting.frontier import Items, Keys
from glimpse.drafting.suffix.states import COUNT, EDGE, END, LENGTH, LINK, NEXT, TO, TOKEN, Edges, States

FLOOR = 0.05
"""Nodes less likely than this are not proposed (0.1 in the release of SuffixDecoding, arXiv 2411.04975)."""
ROOM = 1024
"""Nodes that may wait for their turn; more are not considered."""


@compiled
def _followed(states: States, edges: Edges, state: int) -> int:
    """How often a token came after the state."""
    total, edge = 0, states[state, EDGE]
    while edge != 0:
        if edges[edge, TOKEN] >= 0:
            total += states[edges[edge, TO], COUNT]
        edge = edges[edge, NEXT]
    return total


@compiled
def _expand(
    states: States, edges: Edges, keys: Keys, items: Items, size: int, state: int, match: int, depth: int, parent: int,
    reach: float, rates: NDArray[np.float64],
) -> int:  # fmt: skip
    """Pushes what may follow `state`, of which `match` tokens are matched; returns the heap's size.

    Where the text ends it goes on from the longest suffix that does not end there, so that a loop is drafted whole.
    """
    total = _followed(states, edges, state)
    while total == 0 and state != 0:
        state = int(states[state, LINK])
        match = int(states[state, LENGTH])
        total = _followed(states, edges, state)
    if match == 0:
        return size
    share = reach * rates[min(match, len(rates)) - 1] / total
    edge = states[state, EDGE]
    while edge != 0:
        target = edges[edge, TO]
        chance = share * states[target, COUNT]
        if edges[edge, TOKEN] >= 0 and chance >= FLOOR and size < len(keys):
            keys[size] = chance
            items[size, frontier.TIE], items[size, frontier.PARENT] = states[target, END], parent
            items[size, frontier.TOKEN], items[size, frontier.NODE] = edges[edge, TOKEN], target
            items[size, frontier.DEPTH], items[size, frontier.MATCH] = depth + 1, match + 1
            size = frontier.push(keys, items, size)
        edge = edges[edge, NEXT]
    return size


@compiled
def grow(
    states: States, edges: Edges, state: int, match: int, rates: NDArray[np.float64], depth: int,
    tokens: NDArray[np.int64], parents: NDArray[np.int64], reach: NDArray[np.float32], matches: NDArray[np.int64],
) -> int:  # fmt: skip
    """Fills the last four with the likeliest nodes down to `depth`, `matches` with their matched lengths.

    Returns how many there are.
    """
    keys, items = np.empty(ROOM, np.float64), np.empty((ROOM, frontier.WIDTH), np.int64)
    count, size = 0, 0
    below, chance = 0, 1.0
    while True:
        if below < depth:
            size = _expand(
                states, edges, keys, items, size, state, match, below, count - 1, chance, rates
            )  # fmt: skip
        if size == 0 or count == len(tokens):
            return count
        size = frontier.pop(keys, items, size)
        parents[count], tokens[count] = items[size, frontier.PARENT], items[size, frontier.TOKEN]
        state, match = items[size, frontier.NODE], items[size, frontier.MATCH]
        below, chance = items[size, frontier.DEPTH], keys[size]
        matches[count], reach[count] = match, chance
        count += 1

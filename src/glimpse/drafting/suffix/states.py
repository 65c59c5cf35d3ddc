"""A suffix automaton in arrays, grown by tokens: every substring of a text, with how often and where last it ended.

Blumer et al. 1985. Amortised O(1) a token, whatever the text. Tokens below 0 separate texts: they are matched and
proposed by nobody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.compiled import compiled
from glimpse.drafting.hashing import bucket_of

LENGTH, LINK, COUNT, END, EDGE = range(5)
"""Columns of a state: its longest substring, suffix link, occurrences, end of the latest occurrence, first edge."""
STATE_FIELDS = 5
FROM, TOKEN, TO, NEXT = range(4)
"""Columns of an edge; edge 0 stands for none, state 0 is the empty string."""
EDGE_FIELDS = 4
STATES, EDGES, LAST = range(3)
"""Of `meta`: states and edges in use (the unused first ones included), the state of the whole text."""
COUNTED = 64
"""An occurrence is counted for the longest 64 states that end there: for all, unless a text is highly repetitive."""

States = NDArray[np.int32]
Edges = NDArray[np.int32]
Buckets = NDArray[np.int32]
"""[power of two] edge by (state, token); 0 is an empty bucket."""
Meta = NDArray[np.int64]


@compiled
def edge_of(edges: Edges, buckets: Buckets, state: int, token: int) -> int:
    """The edge of `state` by `token`, or 0."""
    mask = len(buckets) - 1
    place = bucket_of(state, token, mask)
    while buckets[place] != 0:
        edge = buckets[place]
        if edges[edge, FROM] == state and edges[edge, TOKEN] == token:
            return int(edge)
        place = (place + 1) & mask
    return 0


@compiled
def _hash(edges: Edges, buckets: Buckets, edge: int) -> None:
    mask = len(buckets) - 1
    place = bucket_of(int(edges[edge, FROM]), int(edges[edge, TOKEN]), mask)
    while buckets[place] != 0:
        place = (place + 1) & mask
    buckets[place] = edge


@compiled
def rehash(edges: Edges, buckets: Buckets, meta: Meta) -> None:
    """Fills empty buckets with all edges."""
    for edge in range(1, meta[EDGES]):
        _hash(edges, buckets, edge)


@compiled
def _connect(states: States, edges: Edges, buckets: Buckets, meta: Meta, state: int, token: int, target: int) -> None:
    edge = int(meta[EDGES])
    meta[EDGES] += 1
    edges[edge, FROM], edges[edge, TOKEN], edges[edge, TO] = state, token, target
    edges[edge, NEXT] = states[state, EDGE]
    states[state, EDGE] = edge
    _hash(edges, buckets, edge)


@compiled
def _split(
    states: States, edges: Edges, buckets: Buckets, meta: Meta, state: int, token: int, target: int, length: int
) -> int:
    """Gives the substrings of `target` up to `length` a state of their own, which is returned."""
    clone = int(meta[STATES])
    meta[STATES] += 1
    states[clone, LENGTH], states[clone, LINK] = length, states[target, LINK]
    states[clone, COUNT], states[clone, END] = states[target, COUNT], states[target, END]
    states[clone, EDGE] = 0
    edge = states[target, EDGE]
    while edge != 0:
        _connect(states, edges, buckets, meta, clone, int(edges[edge, TOKEN]), int(edges[edge, TO]))
        edge = edges[edge, NEXT]
    while state != -1:
        edge = edge_of(edges, buckets, state, token)
        if edge == 0 or edges[edge, TO] != target:
            break
        edges[edge, TO] = clone
        state = states[state, LINK]
    states[target, LINK] = clone
    return clone


@compiled
def _append(states: States, edges: Edges, buckets: Buckets, meta: Meta, token: int) -> None:
    last, state = int(meta[LAST]), int(meta[STATES])
    meta[STATES] += 1
    length = states[last, LENGTH] + 1
    states[state, LENGTH], states[state, COUNT], states[state, EDGE] = length, 0, 0
    edge = 0
    while last != -1:
        edge = edge_of(edges, buckets, last, token)
        if edge != 0:
            break
        _connect(states, edges, buckets, meta, last, token, state)
        last = states[last, LINK]
    link = 0
    if last != -1:
        link = edges[edge, TO]
        if states[link, LENGTH] != states[last, LENGTH] + 1:
            link = _split(states, edges, buckets, meta, last, token, link, states[last, LENGTH] + 1)
    states[state, LINK] = link
    meta[LAST] = state
    for _ in range(COUNTED):
        if state == 0:
            break
        states[state, COUNT] += 1
        states[state, END] = length
        state = states[state, LINK]


@compiled
def read(states: States, edges: Edges, buckets: Buckets, meta: Meta, tokens: NDArray[np.int64]) -> None:
    """Appends tokens; there must be room for 2 states and 3 edges a token."""
    for token in tokens:
        _append(states, edges, buckets, meta, token)


@compiled
def follow(
    states: States, edges: Edges, buckets: Buckets, state: int, length: int, tokens: NDArray[np.int64]
) -> tuple[int, int]:
    """The longest suffix that occurs, of a text so far (`state` and `length` are its longest) and `tokens`."""
    for token in tokens:
        # Since the last call, shorter substrings of the state may have been given a state of their own.
        while state != 0 and states[states[state, LINK], LENGTH] >= length:
            state = states[state, LINK]
        edge = edge_of(edges, buckets, state, token)
        while edge == 0 and state != 0:
            state = states[state, LINK]
            length = states[state, LENGTH]
            edge = edge_of(edges, buckets, state, token)
        if edge != 0:
            state = edges[edge, TO]
            length += 1
    return state, length

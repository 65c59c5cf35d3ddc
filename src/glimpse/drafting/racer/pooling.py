"""What the automaton proposes: the subtrees below its state and the state's failure chain, pooled, best first.

RACER's drafts end with its n-grams. Here they go on, from n-gram to n-gram: the last 6 to 9 tokens of a draft of 9 or
more are contexts too, though nothing of the text is in them. Where text repeats itself, drafts of 9 tokens are too
short: on MGSM, greedy, lookup's chains of 16 yielded more tokens a round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting import frontier
from glimpse.drafting.compiled import compiled
from glimpse.drafting.frontier import Items, Keys
from glimpse.drafting.racer.ngrams import CHILD, COUNT, DEPTH, FAIL, NEXT, TOKEN, Nodes

ESCAPE = 1.0
"""How many visits of a context the next shorter one's opinion is worth; at 1 the probabilities proved about right."""
OWN = 6
"""The shortest context made of drafted tokens alone. 2 to 9 differed by 0.03 tokens a round at 64 nodes, 6 the most."""
FLOOR = 0.01
"""Nodes less likely than this are not proposed."""

Weights = NDArray[np.float64]
"""[capacity + 1] scratch: blended probability of a child in its context, negative once a longer context knows it."""
Contexts = NDArray[np.int64]
"""[2, length + 1] scratch: a failure chain, longest first, and how often each of its nodes was followed."""


@compiled
def _followed(nodes: Nodes, node: int) -> int:
    """How often a token came after the node, of those that were not evicted."""
    total, child = 0, nodes[node, CHILD]
    while child != 0:
        total += nodes[child, COUNT]
        child = nodes[child, NEXT]
    return total


@compiled
def _weigh(nodes: Nodes, weights: Weights, contexts: Contexts, count: int) -> None:
    """P(child | context) for every child of the contexts, `contexts[0, 0]` being the longest.

    From the shortest context on, P_k = (visits of the child + ESCAPE · P_{k-1}) / (visits of all + ESCAPE); the child's
    failure link is the same token in the next shorter context.
    """
    for level in range(count - 1, -1, -1):
        contexts[1, level] = _followed(nodes, int(contexts[0, level]))
        child = nodes[contexts[0, level], CHILD]
        while child != 0:
            shorter = 0.0
            if level < count - 1:
                shorter = weights[nodes[child, FAIL]]
                weights[nodes[child, FAIL]] = -1.0
            weights[child] = (nodes[child, COUNT] + ESCAPE * shorter) / (contexts[1, level] + ESCAPE)
            child = nodes[child, NEXT]


@compiled
def _expand(
    nodes: Nodes, weights: Weights, keys: Keys, items: Items, size: int, longest: int, depth: int, parent: int,
    reach: float, contexts: Contexts, shortest: int, whole: int,
) -> int:  # fmt: skip
    """Pushes what may follow a draft node of `depth` whose longest context is `longest`; returns the heap's size.

    A context has at least `shortest` tokens of the text; where the draft has become too long for that (contexts have at
    most `whole` tokens), at least OWN tokens of the draft.
    """
    count, least = 0, depth + shortest
    if least > whole:
        least = min(OWN, whole)
    while nodes[longest, DEPTH] >= least:
        contexts[0, count] = longest
        count += 1
        longest = nodes[longest, FAIL]
    _weigh(nodes, weights, contexts, count)
    for level in range(count):
        child = nodes[contexts[0, level], CHILD]
        while child != 0:
            chance = reach * weights[child]
            if chance >= FLOOR and size < len(keys):
                keys[size] = chance
                items[size, frontier.TIE], items[size, frontier.PARENT] = -size, parent
                items[size, frontier.TOKEN], items[size, frontier.NODE] = nodes[child, TOKEN], child
                items[size, frontier.DEPTH] = depth + 1
                size = frontier.push(keys, items, size)
            child = nodes[child, NEXT]
        reach *= ESCAPE / (contexts[1, level] + ESCAPE)
    return size


@compiled
def room_for(length: int, depth: int) -> int:
    """How many entries a heap has to take."""
    # Nodes of one depth exclude one another, so at most 1 / FLOOR of them are likely enough.
    return int(max(length, depth) / FLOOR)


@compiled
def pool(
    nodes: Nodes, longest: int, length: int, shortest: int, depth: int,
    tokens: NDArray[np.int64], parents: NDArray[np.int64], reach: NDArray[np.float32],
) -> int:  # fmt: skip
    """Fills the last three with the likeliest nodes down to `depth`; returns how many.

    `longest` is the state, `length` that of the automaton's n-grams; for `shortest` see `_expand`.
    """
    weights, contexts = np.empty(len(nodes), np.float64), np.empty((2, length + 1), np.int64)
    room = room_for(length, depth)
    keys, items = np.empty(room, np.float64), np.empty((room, frontier.WIDTH), np.int64)
    return fill(nodes, longest, length, shortest, depth, weights, contexts, keys, items, tokens, parents, reach)


@compiled
def fill(
    nodes: Nodes, longest: int, length: int, shortest: int, depth: int, weights: Weights, contexts: Contexts,
    keys: Keys, items: Items, tokens: NDArray[np.int64], parents: NDArray[np.int64], reach: NDArray[np.float32],
) -> int:  # fmt: skip
    """As `pool`, with memory that it is lent."""
    count, size = 0, 0
    node, below, chance = longest, 0, 1.0
    while True:
        if below < depth:
            size = _expand(
                nodes, weights, keys, items, size, node, below, count - 1, chance, contexts, shortest, length - 1
            )  # fmt: skip
        if size == 0 or count == len(tokens):
            return count
        size = frontier.pop(keys, items, size)
        parents[count], tokens[count] = items[size, frontier.PARENT], items[size, frontier.TOKEN]
        node, below, chance = items[size, frontier.NODE], items[size, frontier.DEPTH], keys[size]
        reach[count] = chance
        count += 1

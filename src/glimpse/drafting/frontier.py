"""Growing a tree best first: a heap of nodes that might come next, most probable on top."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.compiled import compiled

TIE, PARENT, TOKEN, NODE, DEPTH, MATCH = range(6)
"""Columns of a heap entry: who wins among equals (the greater); the parent in the draft; the token; where the entry
stands in the source's own structure; its depth in the draft; the tokens that the source matched, the draft included."""
WIDTH = 6

Keys = NDArray[np.float64]
"""[capacity] probabilities. How many of the entries are in use is the user's to keep."""
Items = NDArray[np.int64]
"""[capacity, WIDTH]"""


@compiled
def before(keys: Keys, items: Items, first: int, second: int) -> bool:
    """Whether entry `first` leaves the heap before `second`."""
    if keys[first] != keys[second]:
        return bool(keys[first] > keys[second])
    return bool(items[first, TIE] > items[second, TIE])


@compiled
def swap(keys: Keys, items: Items, first: int, second: int) -> None:
    """Exchanges two entries."""
    keys[first], keys[second] = keys[second], keys[first]
    for column in range(items.shape[1]):
        held = items[first, column]
        items[first, column] = items[second, column]
        items[second, column] = held


@compiled
def push(keys: Keys, items: Items, size: int) -> int:
    """Takes the entry that was written at index `size` into the heap, and returns the new size."""
    place = size
    while place > 0 and before(keys, items, place, (place - 1) // 2):
        swap(keys, items, place, (place - 1) // 2)
        place = (place - 1) // 2
    return size + 1


@compiled
def pop(keys: Keys, items: Items, size: int) -> int:
    """Moves the first entry behind the heap, to index size - 1, and returns the new size, which is that index."""
    size -= 1
    swap(keys, items, 0, size)
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and before(keys, items, child + 1, child):
            child += 1
        if not before(keys, items, child, place):
            break
        swap(keys, items, child, place)
        place = child
    return size

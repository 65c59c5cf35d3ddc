"""Which shape a step is run in, where each shape is a graph that takes a tenth of a second to capture."""

from __future__ import annotations

from collections import Counter
from math import prod

PATIENCE = 8
"""Times that a shape is wanted before it gets a graph of its own, where another graph does."""
Shape = tuple[int, int, int]


class Covering:
    """Shapes that there are graphs for. A step of a shape without one is run in the smallest that covers it, until it
    has been wanted often; where none does, a larger one than asked for is made, which will cover others too."""

    def __init__(self) -> None:
        self._held: set[Shape] = set()
        self._wanted: Counter[Shape] = Counter()

    def choose(self, wanted: Shape, ample: Shape) -> Shape:
        """The shape to run. The first numbers of shapes that cover one another are equal; `ample` covers `wanted`."""
        if wanted in self._held:
            return wanted
        self._wanted[wanted] += 1
        covers = [held for held in self._held if held[0] == wanted[0] and _covers(held, wanted)]
        chosen = wanted if self._wanted[wanted] > PATIENCE else min(covers, key=prod, default=ample)
        self._held.add(chosen)
        return chosen

    def drop(self, shape: Shape) -> None:
        """Its graph is gone."""
        self._held.discard(shape)
        self._wanted.pop(shape, None)


def _covers(held: Shape, wanted: Shape) -> bool:
    return all(have >= need for have, need in zip(held, wanted, strict=True))


def node_bucket(tokens: int) -> int:
    """The number of tokens that a step of `tokens` is made for: 1, 2, 4, 8, 16, then two sizes an octave.

    At most a third is padding, which is free until products are bound by arithmetic.
    """
    grain = 1 << max(0, (tokens - 1).bit_length() - (2 if tokens > 16 else 0))
    return -(-tokens // grain) * grain

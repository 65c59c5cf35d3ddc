"""Which shape a step is run in, where each shape is a graph that takes a twentieth of a second to capture.

A shape is as many numbers as its kind of step has, the query tokens of the whole step first. A step may run in any
shape none of whose numbers is less than its own: what is too much is padding. All running requests wait for a capture,
so a shape has to earn it: it gets a graph of its own when its padding has cost as much (who rents until the rent
has come to its price, and then buys it, pays twice the least at most, whatever comes).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from math import prod
from typing import Protocol

PATIENCE = 8
"""Times that a shape is wanted, at least, before it gets a graph of its own, where another graph does."""
CAPTURE = 0.05
"""Seconds that a capture takes: on an H200 0.03 to 0.06, of the demo model and at 8B cost."""
SLIGHT = 0.05
"""Of a step's time, what a graph of its own spares where its tokens are no fewer than wait for the weights anyway: rows
and queries that attention is cut up for."""
FREE = 64
"""Tokens up to which a step takes about as long as one of a single token: it waits for the weights."""
SPARE = 4
"""Beyond `FREE`, how many times a step's own tokens those may be that it is run with."""
Shape = tuple[int, ...]


class Held(Protocol):
    """The graphs there are."""

    def shapes(self, kind: Hashable) -> list[Shape]:
        """Shapes of a kind that need no capture."""

    def holds(self, kind: Hashable, shape: Shape) -> bool:
        """Whether this one needs none."""

    def allows(self) -> bool:
        """Whether there is time for a capture that nothing but speed asks for."""

    @property
    def step_seconds(self) -> float:
        """What a step has taken of late."""


class Covering:
    """A step of a shape without a graph is run in the smallest that covers it, until its own has been worth a capture
    and there is time for one; where none does, a larger one than asked for is made, which will cover others too."""

    def __init__(self, graphs: Held) -> None:
        self._graphs = graphs
        self._wanted: Counter[tuple[Hashable, Shape]] = Counter()
        self._lost: defaultdict[tuple[Hashable, Shape], float] = defaultdict(float)
        """Seconds that shapes have taken longer than graphs of their own would have."""

    def choose(self, kind: Hashable, wanted: Shape, ample: Shape) -> Shape:
        """The shape to run a step of a kind in; `ample` covers `wanted`, and there are few of it."""
        found = self.find(kind, wanted)
        if found == wanted or self.due(kind, wanted, found):
            return wanted
        return ample if found is None else found

    def find(self, kind: Hashable, wanted: Shape) -> Shape | None:
        """The shape with the fewest tokens that there is a graph of, which covers a step without much padding."""
        if self._graphs.holds(kind, wanted):
            return wanted
        covers = [held for held in self._graphs.shapes(kind) if _covers(held, wanted)]
        return min(covers, key=lambda held: (held[0], prod(1 + number for number in held)), default=None)

    def due(self, kind: Hashable, wanted: Shape, found: Shape | None) -> bool:
        """Whether a step that could run as `found` should have a graph of its own by now. Counts how often it asked."""
        if found is None:
            return False
        self._wanted[kind, wanted] += 1
        self._lost[kind, wanted] += self._graphs.step_seconds * _padding(wanted, found)
        earned = self._wanted[kind, wanted] > PATIENCE and self._lost[kind, wanted] >= CAPTURE
        return earned and self._graphs.allows()


def ladder(count: int, most: int) -> int:
    """The least of 1, 4, 16, 64, ... and `most` that is at least `count`: sizes of graphs that cover others."""
    return min(1 << 2 * -(-(count - 1).bit_length() // 2), most)


def _covers(held: Shape, wanted: Shape) -> bool:
    near = held[0] <= max(FREE, SPARE * wanted[0])
    return near and all(have >= need for have, need in zip(held, wanted, strict=True))


def _padding(wanted: Shape, found: Shape) -> float:
    """The share of a step's time, as `found`, that it would not have taken as `wanted`."""
    return 1 - (1 - SLIGHT) * max(FREE, wanted[0]) / max(FREE, found[0])


def node_bucket(tokens: int) -> int:
    """The number of tokens that a step of `tokens` is made for: 1, 2, 4, 8, 16, then two sizes an octave.

    At most a third is padding, which is free until products are bound by arithmetic.
    """
    grain = 1 << max(0, (tokens - 1).bit_length() - (2 if tokens > 16 else 0))
    return -(-tokens // grain) * grain

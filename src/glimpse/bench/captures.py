"""Turns of a measurement in which an engine captured graphs: repeated, for their time is not that of decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glimpse.engine.face import EngineFace

V = TypeVar("V")
TRIES = 3
"""Turns that are given up at most before one counts whatever happened in it."""


def captures(engine: EngineFace) -> int:
    """Graphs that an engine has captured so far; 0 where it runs without."""
    facts = engine.facts
    return sum(int(str(facts.get(name, 0))) for name in ("graphs", "graphs_dropped"))


def settled(run: Callable[[], V], engine: EngineFace) -> tuple[V, int, int]:
    """What `run` returns of a turn, how many turns before it were given up, and how many graphs this one captured."""
    for given_up in range(TRIES + 1):
        before = captures(engine)
        found = run()
        fresh = captures(engine) - before
        if not fresh or given_up == TRIES:
            break
    return found, given_up, fresh

"""Timing of arms against one another: A B A B, or A B B A, so that slow drift of the machine falls on all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def interleave(arms: Mapping[str, Callable[[], Value]], rounds: int, *, warm_up: int = 1) -> dict[str, list[Value]]:
    """Runs every arm once a round, in turn, the order reversed in every other round; `warm_up` rounds do not count."""
    values: dict[str, list[Value]] = {name: [] for name in arms}
    for turn in range(-warm_up, rounds):
        for name in list(arms)[:: 1 if turn % 2 == 0 else -1]:
            value = arms[name]()
            if turn >= 0:
                values[name].append(value)
    return values


def seconds(action: Callable[[], object]) -> float:
    """How long `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def timed(actions: Mapping[str, Callable[[], object]], rounds: int, *, warm_up: int = 2) -> dict[str, list[float]]:
    """Seconds of each action, interleaved."""
    arms = {name: (lambda action=action: seconds(action)) for name, action in actions.items()}
    return interleave(arms, rounds, warm_up=warm_up)


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Ratios within the rounds."""
    return [a / b for a, b in zip(over, under, strict=True)]

"""All arms of a batch in turn: tokens a second, speedup over plain decoding in the same turn, host time, drafts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import Round, distinct_4grams
from glimpse.bench.decode.runs import Say, parted
from glimpse.bench.fleet.arms import FIXED, NONE, Arm
from glimpse.bench.fleet.cell import FleetCell
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.fleet.texts import is_easy
from glimpse.bench.fleet.window import Window
from glimpse.bench.stats import summary

_SEEDS_APART = 1000
"""Turns of the runs that a setting is chosen from begin here, so that no seed is used twice."""


@dataclass
class Runs:
    """What was measured of one arm; one entry a turn in each list."""

    arm: Arm
    windows: list[Window] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    """Which prompt each row had."""
    parted: list[int] = field(default_factory=list)
    """Rows whose text is not the plain one of the same seeds, as far as both go."""

    @property
    def tokens_per_s(self) -> float:
        """All tokens over all seconds."""
        return sum(window.tokens for window in self.windows) / sum(window.seconds for window in self.windows)

    @property
    def rates(self) -> list[float]:
        """Tokens a second of each turn."""
        return [window.tokens / window.seconds for window in self.windows]


def chosen_length(cell: FleetCell, rows: int, lengths: Sequence[int], temperature: float, effort: FleetEffort) -> int:
    """The draft length of `lengths` that is fastest on texts which begin somewhat earlier; the first run of each, which
    compiles, does not count.
    """
    if len(lengths) == 1:
        return lengths[0]
    rates = {}
    for length in lengths:
        arm = Arm(FIXED, length)
        for turn in (_SEEDS_APART, _SEEDS_APART + 1):
            window, _ = cell.run(arm, rows, turn, temperature, effort, earlier=True)
        rates[length] = window.tokens / window.seconds
        cell.forget(arm)
    return max(rates, key=rates.__getitem__)


def measure_arms(
    cell: FleetCell, rows: int, arms: Sequence[Arm], temperature: float, effort: FleetEffort, say: Say
) -> tuple[list[Runs], float]:
    """Every arm in every turn, their order reversed in every other one; and the distinct 4-grams of the plain texts.

    The first turn compiles kernels and captures graphs, and does not count. A run in which a graph was captured all the
    same is run again, up to `effort.again` times.
    """
    found, distinct, ends = [Runs(arm) for arm in arms], list[float](), 0.0
    for turn in range(-1, effort.turns_of(rows)):
        if turn > 0 and time.perf_counter() > ends:
            break
        ends = time.perf_counter() + effort.seconds if turn == 0 else ends
        texts: dict[Arm, list[list[int]]] = {}
        for runs in found[:: 1 if turn % 2 else -1]:
            window, texts[runs.arm] = _run(cell, runs.arm, rows, turn, temperature, effort)
            if turn >= 0:
                runs.windows.append(window)
                runs.places.append(cell.places(rows, turn))
        if turn < 0:
            say("warm")
            continue
        plain = texts[Arm(NONE)]
        distinct.append(distinct_4grams(plain))
        for runs in found:
            runs.parted.append(parted(plain, texts[runs.arm]))
        say(f"turn {turn + 1}: " + ", ".join(f"{runs.arm.label} {runs.rates[-1]:,.0f}" for runs in found))
    return found, sum(distinct) / len(distinct)


def _run(
    cell: FleetCell, arm: Arm, rows: int, turn: int, temperature: float, effort: FleetEffort
) -> tuple[Window, list[list[int]]]:
    again = effort.again if turn >= 0 else 0
    window, texts = cell.run(arm, rows, max(turn, 0), temperature, effort)
    while window.captured and again:
        window, texts = cell.run(arm, rows, turn, temperature, effort)
        again -= 1
    return window, texts


def figures(runs: Runs, plain: Runs, *, graphs: bool, half: bool) -> dict[str, Any]:
    """An arm's figures; a speedup is the median of the ratios within turns."""
    ratios = [own / other for own, other in zip(runs.rates, plain.rates, strict=True)]
    rounds = rounds_of(runs)
    most = max((drafted for found in rounds for drafted in found.drafted), default=0)
    accepted = depths(rounds, most)
    found: dict[str, Any] = {
        "arm": runs.arm.name, "length": runs.arm.length, "tokens_per_s": runs.tokens_per_s,
        "speedup": median(ratios), "speedups": ratios, "spread": summary(ratios).to_json(),
        "seconds": [window.seconds for window in runs.windows], "tokens": [window.tokens for window in runs.windows],
        "steps": [window.steps for window in runs.windows], "captured": [window.captured for window in runs.windows],
        "ended": sum(window.ended for window in runs.windows), "parted": runs.parted,
        "drafted": _mean([drafted for round in rounds for drafted in round.drafted]),
        "accepted": accepted.accepted, "by_depth": accepted.known,
        "host_share": median(_host_share(window) for window in runs.windows) if graphs else None,
    }  # fmt: skip
    return found | ({"halves": {kind: _half(runs, kind == "easy") for kind in ("easy", "hard")}} if half else {})


def rounds_of(runs: Runs, easy: bool | None = None) -> list[Round]:
    """Every step in which rows wrote, plain steps too; of the rows with easy, or hard, text only."""
    found = []
    for window, places in zip(runs.windows, runs.places, strict=True):
        for wrote in window.rounds:
            kept = [entry for entry in wrote if easy is None or is_easy(places[entry[0]]) is easy]
            if kept:
                _, drafted, committed = zip(*kept, strict=True)
                found.append(Round(list(drafted), list(committed), [[] for _ in kept]))
    return found


def _half(runs: Runs, easy: bool) -> dict[str, Any]:
    rounds = rounds_of(runs, easy)
    written = [
        sum(count for count, place in zip(window.by_row, places, strict=True) if is_easy(place) is easy)
        for window, places in zip(runs.windows, runs.places, strict=True)
    ]
    return {
        "tokens_per_s": sum(written) / sum(window.seconds for window in runs.windows),
        "drafted": _mean([drafted for round in rounds for drafted in round.drafted]),
        "accepted": depths(rounds, 1).accepted,
    }


def _host_share(window: Window) -> float:
    """Of the wall time, what the device had no step to do in."""
    return max(0.0, 1 - window.busy / window.seconds)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0

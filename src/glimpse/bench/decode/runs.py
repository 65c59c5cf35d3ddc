"""Plain and drafted runs of one cell in turn: tokens a second, the same text or not, acceptance, host time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import Cell, Round, distinct_4grams, law_of, one_round
from glimpse.bench.decode.effort import Effort
from glimpse.bench.floors import Floors

Say = Callable[[str], None]


@dataclass
class Arm:
    """Runs of one draft length (0: plain)."""

    drafts: int
    seconds: list[float] = field(default_factory=list)
    """Wall time of each run."""
    tokens: list[int] = field(default_factory=list)
    """What all rows wrote in each run."""
    parted: list[int] = field(default_factory=list)
    """Rows whose text is not the plain one of the same seeds, as far as both go."""
    rounds: list[Round] = field(default_factory=list)
    host_share: float | None = None
    """Of the wall time, what the device would not have needed; None where host and device are one."""

    @property
    def tokens_per_s(self) -> float:
        """All tokens over all seconds."""
        return sum(self.tokens) / sum(self.seconds)


def measure_runs(
    cell: Cell, floors: Floors, drafts: Sequence[int], budget: int, temperature: float, effort: Effort, say: Say
) -> dict[str, Any]:
    """One law of a cell. Every pair has seeds of its own; within a pair all arms have the same.

    A first pair warms up (kernels compile, graphs are captured) and does not count.
    """
    arms = [Arm(0), *(Arm(count) for count in drafts)]
    texts: list[list[list[int]]] = []
    ends = time.perf_counter() + effort.seconds
    for turn in range(-1, effort.pairs):
        if turn > 0 and time.perf_counter() > ends:
            break
        cell.resample(temperature, max(turn, 0))
        written = {arm.drafts: _run(cell, arm, effort, count=turn >= 0) for arm in arms[:: 1 if turn % 2 else -1]}
        say(
            f"{law_of(temperature)}, pair {turn + 1} of {effort.pairs}" if turn >= 0 else f"{law_of(temperature)}, warm"
        )
        if turn >= 0:
            texts.append(written[0])
            for arm in arms:
                arm.parted.append(parted(written[0], written[arm.drafts]))
    return _found(cell, floors, arms, texts, budget) | {"law": law_of(temperature), "temperature": temperature}


def _run(cell: Cell, arm: Arm, effort: Effort, *, count: bool) -> list[list[int]]:
    """One run of an arm, from the end of the prompts; returns the texts. The first that counts measures the host."""
    cell.rewind(arm.drafts)
    before = sum(map(len, cell.written()))
    action = _action(cell, arm.drafts, effort)
    seconds = cell.clock.run(action)
    written = cell.written()
    if count:
        arm.seconds.append(seconds)
        arm.tokens.append(sum(map(len, written)) - before)
        arm.rounds += cell.noted()
        if len(arm.seconds) == 1:
            arm.host_share = _host_share(cell, arm.drafts, action, seconds)
    return written


def _action(cell: Cell, drafts: int, effort: Effort) -> Callable[[], None]:
    def plain() -> None:
        for _ in range(effort.steps):
            cell.plain()

    def drafted() -> None:
        for _ in range(effort.rounds):
            one_round(cell, drafts)

    return drafted if drafts else plain


def _host_share(cell: Cell, drafts: int, action: Callable[[], None], wall: float) -> float | None:
    cell.rewind(drafts)
    own = cell.clock.device(action)
    return None if own is None else max(0.0, 1 - own / wall)


def parted(plain: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> int:
    return sum(any(a != b for a, b in zip(left, right, strict=False)) for left, right in zip(plain, other, strict=True))


def _found(cell: Cell, floors: Floors, arms: list[Arm], texts: list[list[list[int]]], budget: int) -> dict[str, Any]:
    plain = arms[0]
    good = cell.rows / (1.10 * floors.step(1))
    drafted = [_drafted(arm, plain, good) for arm in arms[1:]]
    best = max(drafted, key=lambda arm: float(arm["tokens_per_s"]))
    known = depths(arms[-1].rounds, arms[-1].drafts).known
    rate, length = floors.ceiling(known, budget)
    return {
        "pairs": len(plain.seconds),
        "distinct_4grams": sum(map(distinct_4grams, texts)) / len(texts),
        "plain": _raw(plain) | {"tokens_per_s_ceiling": cell.rows / floors.step(1)},
        "drafted": drafted,
        "best": best["drafts"],
        "tokens_per_s": best["tokens_per_s"],
        "speedup": best["speedup"],
        "speedup_over_good_plain": best["speedup_over_good_plain"],
        "host_share": best["host_share"],
        "ceiling": rate if cell.reads_cache else None,
        "ceiling_drafts": length if cell.reads_cache else None,
        "share": best["tokens_per_s"] / rate if cell.reads_cache else None,
    }


def _drafted(arm: Arm, plain: Arm, good: float) -> dict[str, Any]:
    """An arm's figures; the speedup is the median of the ratios within pairs."""
    found = depths(arm.rounds, arm.drafts)
    speeds = zip(arm.tokens, arm.seconds, plain.tokens, plain.seconds, strict=True)
    return _raw(arm) | {
        "speedup": median((own / took) / (other / plainly) for own, took, other, plainly in speeds),
        "speedup_over_good_plain": arm.tokens_per_s / good,
        "acceptance": asdict(found),
        "parted": arm.parted,
    }


def _raw(arm: Arm) -> dict[str, Any]:
    return {"drafts": arm.drafts, "tokens_per_s": arm.tokens_per_s, "seconds": arm.seconds, "tokens": arm.tokens,
            "host_share": arm.host_share}  # fmt: skip

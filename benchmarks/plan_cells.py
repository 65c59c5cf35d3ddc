"""Measured cells as `plan_check` judges them: seconds of steps, speedups by draft length, acceptance by depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glimpse.bench.grow import SHAPES
from glimpse.bench.grow_plan import twin_spec
from glimpse.bench.results import Result, read_result
from glimpse.cache.recall import RecallBudget
from glimpse.model.spec import DecoderSpec
from glimpse.planning import ByDepth, Device, Setting
from glimpse.planning.models import DEMO_SPEC
from glimpse.planning.overheads import Observed, floor_of, terms_of
from glimpse.planning.work import Step

DTYPE = torch.bfloat16
EIGHT = 8
"""Tokens of the verification that is timed with and without importance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of step, and what it took."""

    name: str
    """"plain", "draft", "verify 4" (drafts, importance and selection included), "bare verify 7" or "select"."""
    step: Step
    seconds: float
    drafted: int = 0

    def observed(self, spec: DecoderSpec, device: Device, few: int) -> Observed:
        """As a fit of overheads wants it, where so many tokens are few."""
        about = spec, DTYPE, self.step, device.bandwidth, device.rate
        return Observed(floor_of(*about), terms_of(*about, few), self.seconds)


@dataclass(frozen=True, slots=True)
class Law:
    """Decoding by one sampling law."""

    name: str
    chances: ByDepth
    """Acceptance of the longest drafts."""
    speedups: Mapping[int, float]
    """Over plain decoding, by draft length."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A model, a context and a number of rows on one device."""

    name: str
    context: int
    rows: int
    budget: int
    """Positions that a draft step reads."""
    steps: tuple[Measured, ...]
    laws: tuple[Law, ...] = ()

    @property
    def shape(self) -> str:
        """The model's name in the result files."""
        return self.name.split()[0]

    @property
    def spec(self) -> DecoderSpec:
        """The model's sizes."""
        return DEMO_SPEC if self.shape == "demo" else twin_spec(DEMO_SPEC, SHAPES[self.shape])

    def setting(self, device: Device) -> Setting:
        """What `glimpse plan` would be asked."""
        recall = RecallBudget(share=1e-6, floor=self.budget)
        return Setting(self.spec, DTYPE, self.context, self.rows, device, recall)


def read_cells(paths: Iterable[Path]) -> list[Cell]:
    """The cells of result files: `glimpse bench decode` or gpu_peers.py."""
    return [cell for path in paths for cell in _cells(read_result(path))]


def _cells(result: Result) -> Iterator[Cell]:
    for run in result.runs:
        if "laws" in run:
            yield _of_bench(run)
        elif run.get("engine") == "glimpse":
            yield _of_peers(run)


def _of_bench(run: Mapping[str, Any]) -> Cell:
    """A cell of `glimpse bench decode`."""
    rows, context, steps = run["rows"], run["context"], run["steps"]
    made = _Steps(rows, context, run["budget"])
    found = [made.plain(steps["plain"]["median"]), made.draft(steps["draft"]["median"])]
    found += [made.verify(int(drafts), own["median"]) for drafts, own in steps["verify"].items()]
    found += [made.bare(steps["verify_8"]["without"]["median"], EIGHT), made.select(steps["select"]["median"])]
    laws = [
        Law(
            law["law"],
            _chances(max(law["drafted"], key=lambda arm: int(arm["drafts"]))["acceptance"]["measured"]),
            {int(arm["drafts"]): arm["speedup"] for arm in law["drafted"]},
        )
        for law in run["laws"].values()
    ]
    return Cell(run["name"], context, rows, run["budget"], tuple(found), tuple(laws))


def _of_peers(run: Mapping[str, Any]) -> Cell:
    """A cell of gpu_peers.py: one row, plain steps only."""
    steps = _Steps(1, run["context"], 0)
    return Cell(f"{run['shape']} {run['context']}x1", run["context"], 1, 0, (steps.plain(run["ms"] / 1e3),))


@dataclass(frozen=True, slots=True)
class _Steps:
    rows: int
    context: int
    budget: int

    def plain(self, seconds: float) -> Measured:
        return Measured("plain", Step(self.rows, 1, self.context), seconds)

    def draft(self, seconds: float) -> Measured:
        return Measured("draft", Step(self.rows, 1, self.budget, gathers=True), seconds)

    def verify(self, drafted: int, seconds: float) -> Measured:
        step = Step(self.rows, drafted + 1, self.context, learns=True, selects=True)
        return Measured(f"verify {drafted}", step, seconds, drafted)

    def bare(self, seconds: float, tokens: int) -> Measured:
        return Measured(f"bare verify {tokens - 1}", Step(self.rows, tokens, self.context), seconds, tokens - 1)

    def select(self, seconds: float) -> Measured:
        return Measured("select", Step(self.rows, 0, self.context, selects=True), seconds)


def _chances(shares: Sequence[float | None]) -> ByDepth:
    return ByDepth(tuple(share for share in shares if share is not None))

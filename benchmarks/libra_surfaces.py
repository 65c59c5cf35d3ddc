"""Measured step-time surfaces of this project's result files, as one row of a batch sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.plan_cells import DTYPE, read_cells
from benchmarks.plan_surface import surface
from glimpse.bench.results import read_result
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.planning import find_device
from glimpse.planning.measure import LEAN
from glimpse.planning.models import DEMO_SPEC

BLOCK = 0.18
"""What a block of 16 costs to draft, in plain steps: DFlash's 5.79 ms beside a verification of 32.85 ms (LibraSpec)."""


@dataclass(frozen=True, slots=True)
class RowSurface:
    """What a step costs one row of a batch: a step's own seconds are shared by the rows."""

    name: str
    coefficients: tuple[float, ...]
    """Seconds per unit of `StepLoad.features`, of one row's share."""
    length: int
    read: int
    """Positions that a draft step reads."""

    def seconds(self, load: StepLoad) -> float:
        """One row's share of a step in which it carries `load`."""
        return float(load.features() @ np.array(self.coefficients))

    def full(self, drafted: int) -> float:
        """A verification of so many drafts; 0: a plain step."""
        count = drafted + 1
        return self.seconds(StepLoad(full_tokens=count, full_kv=self.length + count, pairs=count * self.length))

    def draft(self, *, first: bool) -> float:
        """A draft step; the first of a round chooses a recall set."""
        return self.seconds(StepLoad(draft_tokens=1, draft_kv=self.read, rounds=int(first)))

    @property
    def costs(self) -> StepCosts:
        """What a pacer would know after `glimpse calibrate` and two plain steps."""
        made = StepCosts(1, 1, start=self.coefficients, lean=1e6)
        load = StepLoad(full_tokens=1, full_kv=self.length, pairs=self.length)
        for _ in range(2):
            made.observe(load, self.full(0))
        return made


def surfaces(folder: Path) -> dict[str, RowSurface]:
    """By name: the cells of the H200 grid whose drafts were timed, and this project's CPU. Raises GlimpseError for a
    result file that is not there."""
    return {made.name: made for made in (*_h200(folder), _cpu(folder))}


def _h200(folder: Path) -> Iterator[RowSurface]:
    cells = read_cells([folder / "h200-decode.json", folder / "h200-peers.json"])
    device = find_device("h200")
    for shape in dict.fromkeys(cell.shape for cell in cells):
        mine = [cell for cell in cells if cell.shape == shape]
        measured = surface(mine, device).measured
        assert measured is not None
        for cell in mine:
            if cell.budget:
                own = (measured.coefficients[0] / cell.rows, *measured.coefficients[1:])
                yield RowSurface(f"h200 {cell.name}", own, cell.context, cell.budget)


def _cpu(folder: Path) -> RowSurface:
    """One row of 4,000 tokens on the CPU of `cpu-cpu_speed.json`."""
    runs = {run["cell"]: run for run in read_result(folder / "cpu-cpu_speed.json").runs}
    length, costs = 4000, StepCosts(DEMO_SPEC.step_weight_bytes(DTYPE), DEMO_SPEC.kv_bytes_per_token(DTYPE), lean=LEAN)
    drafts = {name: median(each) for name, each in runs["draft 4000"]["seconds"].items()}
    read = round(length * runs["draft 4000"]["bytes"]["read"] / runs["draft 4000"]["bytes"]["cache"])
    for prompt in (500, length):
        for tokens, each in runs[f"verify {prompt}"]["seconds"].items():
            count = int(tokens)
            costs.observe(StepLoad(count, 0, prompt + count, 0, count * prompt), median(each))
    costs.observe(StepLoad(draft_tokens=1, draft_kv=read), drafts["draft"])
    costs.observe(StepLoad(draft_tokens=1, draft_kv=read, rounds=1), drafts["draft"] + drafts["choose"])
    return RowSurface("cpu demo 4000x1", tuple(map(float, costs.coefficients)), length, read)

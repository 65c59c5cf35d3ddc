"""The surface of `glimpse calibrate`, fitted to cells of a grid instead of to steps of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from benchmarks.plan_cells import DTYPE, Cell
from glimpse.pacing.calibration import Calibration, shape_of
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.planning import Device
from glimpse.planning.measure import LEAN

Timed = tuple[StepLoad, float]


def surface(cells: Sequence[Cell], device: Device) -> Device:
    """`device` with the prices that the steps of `cells`, all of one model, give `StepCosts`."""
    spec = cells[0].spec
    weights, position = spec.step_weight_bytes(DTYPE), spec.kv_bytes_per_token(DTYPE)
    costs = StepCosts(weights, position, device.bandwidth, lean=LEAN, near=1.0)
    for cell in cells:
        for load, seconds in _loads(cell):
            costs.observe(load, seconds)
    return replace(device, measured=Calibration(
        device=device.name, model=cells[0].shape, dtype=str(DTYPE).removeprefix("torch."), shape=shape_of(spec),
        coefficients=tuple(map(float, costs.coefficients)), points=(), bandwidth=device.bandwidth, rate=device.rate,
        memory=device.memory, measured="", torch=torch.__version__,
    ))  # fmt: skip


def _loads(cell: Cell) -> Iterator[Timed]:
    """The steps as the engine counts them: recall sets are chosen in the first draft step of a round."""
    rows, context = cell.rows, cell.context
    select = next((own.seconds for own in cell.steps if own.name == "select"), 0.0)
    for own in cell.steps:
        step = own.step
        if own.name == "draft":
            load = StepLoad(draft_tokens=rows, draft_kv=rows * step.positions)
            yield load, own.seconds
            yield replace(load, rounds=rows), own.seconds + select
        elif own.name != "select":
            positions = context + step.tokens
            load = StepLoad(rows * step.tokens, 0, rows * positions, 0, rows * step.tokens * positions)
            yield load, own.seconds - select * step.selects

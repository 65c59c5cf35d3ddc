"""Predictions of measured cells by several methods, each beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from benchmarks.plan_cells import Cell, Law
from benchmarks.plan_surface import surface
from glimpse.planning import Device, Plan, make_plan, speedup
from glimpse.planning.overheads import Observed, Overheads, best_fit

TABLE = "device table"
Method = Callable[[Cell, Sequence[Cell], Device], Device | None]
"""(a cell, the others, the device table's entry) -> what it is predicted with; None: there is nothing to go by."""


def floors(cell: Cell, others: Sequence[Cell], device: Device) -> Device | None:
    """Bytes and operations alone."""
    return replace(device, overheads=Overheads())


def table_entry(cell: Cell, others: Sequence[Cell], device: Device) -> Device | None:
    """As `glimpse plan --device h200` has it."""
    return device


def left_out(cell: Cell, others: Sequence[Cell], device: Device) -> Device | None:
    """The overheads that fit the other cells; steps of few tokens cost as others do where no other cell has any."""
    found = fitted(others, device)
    return replace(device, overheads=replace(found, few_layer=found.few_layer or found.layer))


def calibrated(cell: Cell, others: Sequence[Cell], device: Device) -> Device | None:
    """The calibration surface of the same model's other cells."""
    same = [other for other in others if other.shape == cell.shape and len(other.steps) > 1]
    return surface(same, device) if len(same) > 1 else None


METHODS: dict[str, Method] = {
    "floors": floors, TABLE: table_entry, "left out": left_out, "calibration surface": calibrated,
}  # fmt: skip


def fitted(cells: Sequence[Cell], device: Device) -> Overheads:
    """The overheads that fit all steps of `cells`."""

    def observed(few: int) -> list[Observed]:
        return [own.observed(cell.spec, device, few) for cell in cells for own in cell.steps]

    return best_fit(observed)


def judged(cell: Cell, cells: Sequence[Cell], device: Device) -> Iterator[dict[str, Any]]:
    """One entry for each method that can predict the cell."""
    others = [other for other in cells if other.name != cell.name]
    for name, method in METHODS.items():
        with_device = method(cell, others, device)
        if with_device is not None:
            plan = make_plan(cell.setting(with_device), [])
            yield {"cell": cell.name, "method": name, "steps": _steps(cell, plan), "laws": _laws(cell, plan)}


def _steps(cell: Cell, plan: Plan) -> list[dict[str, Any]]:
    """Every kind of step that was measured, its times (of several laws, say) as their median."""
    found = []
    for name in dict.fromkeys(own.name for own in cell.steps if own.name != "select"):
        same = [own for own in cell.steps if own.name == name]
        took, drafted = median(own.seconds for own in same), same[0].drafted
        found.append({"step": name, "measured": took} | _against(took, plan.plain_seconds * _cost(name, drafted, plan)))
    return found


def _cost(name: str, drafted: int, plan: Plan) -> float:
    """In plain steps."""
    if name.startswith("verify"):
        return plan.verify(drafted) + plan.begin
    return plan.c if name == "draft" else plan.verify(drafted)


def _laws(cell: Cell, plan: Plan) -> list[dict[str, Any]]:
    return [_law(law, plan) for law in cell.laws]


def _law(law: Law, plan: Plan) -> dict[str, Any]:
    """Speedups at the lengths measured, the best of them by both, and what taking the predicted one loses."""

    def cost(drafted: int) -> float:
        return plan.verify(drafted) + plan.begin

    predicted = {drafted: speedup(law.chances, drafted, plan.c, cost) for drafted in law.speedups}
    have, expected = {0: 1.0} | dict(law.speedups), {0: 1.0} | predicted
    chosen = max(expected, key=lambda drafted: expected[drafted])
    return {
        "law": law.name,
        "speedups": [{"drafts": drafted, "measured": took} | _against(took, predicted[drafted])
                     for drafted, took in law.speedups.items()],
        "best_measured": max(have, key=lambda drafted: have[drafted]),
        "best_predicted": chosen,
        "loss": 1 - have[chosen] / max(have.values()),
        "best_of_all": asdict(plan.sparse(law.chances)),
    }  # fmt: skip


def _against(measured: float, predicted: float) -> dict[str, float]:
    return {"predicted": predicted, "error": predicted / measured - 1}

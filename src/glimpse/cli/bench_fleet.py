"""`glimpse bench fleet` and `glimpse bench batches`: filled batches of the engine, and batches that grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from glimpse.cli import jsonout
from glimpse.cli.bench_options import (
    CellKind,
    GridOptions,
    Usual,
    adapter_for,
    reads_cache,
    seconds_of,
    shapes,
    shortest,
    temperatures,
    text_of,
    where,
)
from glimpse.cli.bench_run import Figures, machine_for, run_suite, suite_of
from glimpse.cli.options import OutputOptions, option
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from glimpse.bench.fleet.effort import FleetEffort
    from glimpse.bench.fleet.measure import FleetMeasuring
    from glimpse.bench.fleet.shape import FleetShape
    from glimpse.bench.results import Result

_RUN = "Run"
_FIXED = (3, 7, 10)
"""Lengths that the best fixed one is chosen from; 5 is that of `synchronised`, which is always there."""


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """How texts are written."""

    temperature: Annotated[
        float | None, option(_RUN, "Above 0 with top-k 50 and top-p 0.9. Default: 0.7.", "--temperature")
    ] = None
    turns: Annotated[
        int | None,
        option(_RUN, "Runs of all arms in turn; small batches get more, up to 16 texts. Default: 5.", "--turns"),
    ] = None
    cell_seconds: Annotated[
        float | None,
        option(_RUN, "Begin no further turn of a cell so many seconds after the first. Default: 60.", "--cell-seconds"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ArmOptions:
    """Which policies."""

    arms: Annotated[
        str | None,
        option(
            _RUN,
            "Policies by commas, beside plain decoding. Default: synchronised,feedback,fixed,fleet, and refresh where "
            "it runs as graphs.",
            "--arms",
        ),
    ] = None
    adapter: Annotated[
        str | None,
        option(_RUN, "The file of the arms block, block-parallel and block-sequential.", "--adapter"),
    ] = None


def fleet(cells: GridOptions, turns: TurnOptions, arms: ArmOptions, output: OutputOptions) -> int:
    """Decode filled batches by several pacers in turn: tokens a second, speedup, host time (CELL:half: unlike rows)."""
    from glimpse.bench.fleet.arms import USUAL, arms_named, drafters_of

    names = arms_named([name.strip() for name in arms.arms.split(",")]) if arms.arms is not None else None
    drafters, what = drafters_of(names or USUAL), f"the arms {', '.join(names or USUAL)}"
    adapter = adapter_for(arms.adapter, drafters, what)
    if cells.budget is not None and not any(map(reads_cache, drafters)):
        raise ArgumentError(f"--budget {cells.budget} means nothing to {what}, which read no cache; leave it out")
    usual = Usual(400, (4,), (3, 5)), Usual(8000, (64,), _FIXED)
    return _measure("filled", cells, turns, Asked(names, adapter), fleet_kind(*usual), output)


def batches(cells: GridOptions, turns: TurnOptions, output: OutputOptions) -> int:
    """Decode ever larger batches with and without drafts, in turn; draws both (SVG) beside the result file."""
    usual = Usual(400, (1, 2, 4, 8), _FIXED), Usual(8000, tuple(1 << bits for bits in range(9)), _FIXED)
    return _measure("batches", cells, turns, Asked(("none", "fleet")), fleet_kind(*usual, grid=True), output, _figure)


def _figure(result: Result, folder: Path) -> list[Path]:
    from glimpse.bench.fleet.figure import draw

    return draw(result, folder)


def fleet_kind(cpu: Usual, gpu: Usual, *, grid: bool = False) -> CellKind[FleetShape]:
    """How batches are read; `grid`: whether a grid that names no rows has the usual ones."""
    from glimpse.bench.fleet.shape import HALF, parse_fleet

    return CellKind(parse_fleet, cpu, gpu, _FIXED, bare=lambda text: text.strip().removesuffix(HALF), grid=grid)


@dataclass(frozen=True, slots=True)
class Asked:
    """The arms, and the adapter of those that take one."""

    arms: tuple[str, ...] | None
    """None: the usual ones."""
    adapter: str | None = None


def _measure(
    name: str, cells: GridOptions, turns: TurnOptions, arms: Asked, kind: CellKind[FleetShape],
    output: OutputOptions, figures: Figures | None = None,
) -> int:  # fmt: skip
    from glimpse.bench.fleet.tables import tables
    from glimpse.bench.fleet.targets import targets

    with jsonout.kept_clean(output.json) as stdout:
        asked = shapes(cells, where(cells)[0].device, kind)
        measuring = _measuring(cells, turns, arms, asked)
        measuring.expect(asked)
        suite = suite_of(name, measuring, cells, output, tables=tables, targets=targets)
        try:
            return run_suite(suite, asked, output, stdout, figures)
        finally:
            measuring.close()


def _measuring(cells: GridOptions, turns: TurnOptions, arms: Asked, asked: Sequence[FleetShape]) -> FleetMeasuring:
    """All options checked, then the machine measured."""
    from glimpse.bench.decode.models import Models
    from glimpse.bench.fleet.measure import FleetMeasuring
    from glimpse.bench.floors import measure_machine

    law = 0.7 if turns.temperature is None else temperatures(f"{turns.temperature:g}")[0]
    effort, text = _effort(turns), text_of(cells, shortest(asked))
    device, dtype = machine_for(cells)
    machine = measure_machine(device, dtype)
    return FleetMeasuring(
        Models(dtype, device), text, machine, effort, cells.budget or 512, law, arms.arms, arms.adapter
    )


def _effort(turns: TurnOptions) -> FleetEffort:
    from glimpse.bench.fleet.effort import FleetEffort

    if turns.turns is not None and turns.turns < 1:
        raise ArgumentError(f"--turns {turns.turns}: at least 1 is needed")
    asked = {"turns": turns.turns, "seconds": seconds_of("--cell-seconds", turns.cell_seconds)}
    return FleetEffort(**{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]

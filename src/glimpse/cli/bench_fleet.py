"""`glimpse bench fleet` and `glimpse bench batches`: filled batches of the engine, and batches that grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_options import CellKind, GridOptions, Usual, seconds_of, shapes, temperatures, text_of, where
from glimpse.cli.failures import DONE, FAILED, INTERRUPTED, complain
from glimpse.cli.options import OutputOptions, option
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.bench.decode.suite import Suite
    from glimpse.bench.fleet.effort import FleetEffort
    from glimpse.bench.fleet.measure import FleetMeasuring
    from glimpse.bench.fleet.shape import FleetShape

_RUN = "Run"
_FIXED = (3, 5, 7, 10)
"""Lengths that the best fixed one is chosen from."""


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """How texts are written."""

    temperature: Annotated[
        float | None, option(_RUN, "Above 0 with top-k 50 and top-p 0.9. Default: 0.7.", "--temperature")
    ] = None
    turns: Annotated[int | None, option(_RUN, "Runs of all arms in turn. Default: 5.", "--turns")] = None
    cell_seconds: Annotated[
        float | None, option(_RUN, "Begin no further turn of a cell after so many seconds. Default: 60.", "--cell-seconds")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ArmOptions:
    """Which policies."""

    arms: Annotated[
        str | None,
        option(
            _RUN,
            "Policies by commas, beside plain decoding. Default: synchronised,feedback,fixed,fleet, and refresh where it "
            "runs as graphs.",
            "--arms",
        ),
    ] = None


def fleet(cells: GridOptions, turns: TurnOptions, arms: ArmOptions, output: OutputOptions) -> int:
    """Decode filled batches by several pacers in turn: tokens a second, speedup, host time; CELL:half has unlike rows."""
    names = [name.strip() for name in arms.arms.split(",")] if arms.arms is not None else None
    usual = Usual(400, (4,), (3, 5)), Usual(8000, (64,), _FIXED)
    return _measure("fleet", cells, turns, names, _kind(*usual, grid=False), output)


def batches(cells: GridOptions, turns: TurnOptions, output: OutputOptions) -> int:
    """Decode ever larger batches with and without drafts, in turn; draws both (SVG) beside the result file."""
    usual = Usual(400, (1, 2, 4, 8), _FIXED), Usual(8000, tuple(1 << bits for bits in range(9)), _FIXED)
    return _measure("batches", cells, turns, ["none", "fleet"], _kind(*usual, grid=True), output)


def _kind(cpu: Usual, gpu: Usual, *, grid: bool) -> CellKind[FleetShape]:
    from glimpse.bench.fleet.shape import HALF, parse_fleet

    return CellKind(parse_fleet, cpu, gpu, _FIXED, bare=lambda text: text.strip().removesuffix(HALF), grid=grid)


def _measure(
    name: str, cells: GridOptions, turns: TurnOptions, arms: list[str] | None, kind: CellKind[FleetShape],
    output: OutputOptions,
) -> int:  # fmt: skip
    with jsonout.kept_clean(output.json) as stdout:
        device, _ = where(cells)
        asked = shapes(cells, device, kind)
        measuring = _measuring(cells, turns, arms)
        measuring.expect(asked)
        suite = _suite(name, cells, measuring, output)
        code = DONE
        try:
            suite.run(asked)
        except KeyboardInterrupt:
            complain(f"interrupted; finished cells are kept in {cells.out}, and the same command goes on from there")
            code = INTERRUPTED
        finally:
            measuring.close()
        _show(suite, output, stdout)
    return code or (FAILED if suite.failed else DONE)


def _measuring(cells: GridOptions, turns: TurnOptions, arms: list[str] | None) -> FleetMeasuring:
    """All options checked, then the machine measured."""
    import torch

    from glimpse.bench.decode.models import Models
    from glimpse.bench.environment import known_commit, source_root
    from glimpse.bench.fleet.arms import arms_named
    from glimpse.bench.fleet.measure import FleetMeasuring
    from glimpse.bench.floors import measure_machine
    from glimpse.engine.machine import refuse_threads

    if cells.budget is not None and cells.budget < 1:
        raise ArgumentError(f"--budget {cells.budget}: a draft must read at least 1 position")
    refuse_threads(cells.threads)
    device, dtype = where(cells)
    known_commit(source_root(), cells.commit)
    seconds_of("--seconds", cells.seconds)
    named = None if arms is None else arms_named(arms)
    law = 0.7 if turns.temperature is None else temperatures(f"{turns.temperature:g}")[0]
    effort, text = _effort(turns), text_of(cells)
    if cells.threads is not None:
        torch.set_num_threads(cells.threads)
    machine = measure_machine(device, dtype)
    return FleetMeasuring(Models(dtype, device), text, machine, effort, cells.budget or 512, law, named)


def _effort(turns: TurnOptions) -> FleetEffort:
    from glimpse.bench.fleet.effort import FleetEffort

    if turns.turns is not None and turns.turns < 1:
        raise ArgumentError(f"--turns {turns.turns}: at least 1 is needed")
    asked = {"turns": turns.turns, "seconds": seconds_of("--cell-seconds", turns.cell_seconds)}
    return FleetEffort(**{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]


def _suite(name: str, cells: GridOptions, measuring: FleetMeasuring, output: OutputOptions) -> Suite:
    from pathlib import Path

    from glimpse.bench.decode.suite import Suite
    from glimpse.bench.fleet.tables import tables
    from glimpse.bench.fleet.targets import targets

    say = (lambda line: None) if output.quiet else complain
    return Suite(
        name, measuring, Path(cells.out), cells.seconds, cells.commit, cells.fresh, output.debug, say, tables, targets
    )


def _show(suite: Suite, output: OutputOptions, stdout: TextIO) -> None:
    """What was measured so far, if anything; of growing batches, their figure."""
    from glimpse.bench.fleet.figure import draw
    from glimpse.bench.report import shown

    if suite.result is None:
        return
    paths = [suite.out / suite.result.file_name]
    if suite.name == "batches":
        paths += draw(suite.result, suite.out)
    if output.json:
        jsonout.emit(suite.result.to_json(), stdout)
    else:
        typer.echo(f"{shown(suite.result)}\n" + "\n".join(map(str, paths)))

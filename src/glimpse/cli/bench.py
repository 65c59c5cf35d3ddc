"""`glimpse bench`: steps beside their floors, plain and drafted decoding in pairs, reports of result files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_fleet import ArmOptions, TurnOptions, batches, fleet
from glimpse.cli.bench_options import (
    CellKind,
    CellOptions,
    GridOptions,
    PairOptions,
    Usual,
    seconds_of,
    shapes,
    temperatures,
    text_of,
    where,
)
from glimpse.cli.commands import command
from glimpse.cli.failures import DONE, FAILED, INTERRUPTED, complain
from glimpse.cli.options import OutputOptions
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.bench.decode.effort import Effort
    from glimpse.bench.decode.shape import CellShape
    from glimpse.bench.decode.suite import Suite


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Which result files."""

    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Result files.", show_default=False)] = field(
        default_factory=list
    )


def steps(cells: CellOptions, output: OutputOptions) -> int:
    """Time plain, draft and verify steps (with and without importance) and selection, each beside its floor."""
    return _measure("steps", cells, None, output)


def decode(cells: CellOptions, pairs: PairOptions, output: OutputOptions) -> int:
    """Decode cells plainly and drafted, in turn: steps, tokens a second, speedup, share of the ceiling, acceptance."""
    return _measure("decode", cells, pairs, output)


def report(files: ReportOptions, output: OutputOptions) -> int:
    """Print the tables of result files, and their targets: value, pass or short."""
    from pathlib import Path

    from glimpse.bench.report import shown
    from glimpse.bench.results import read_result

    if not files.files:
        raise ArgumentError("name at least one result file, such as bench-results/cpu-decode.json")
    with jsonout.kept_clean(output.json) as stdout:
        results = [read_result(Path(name)) for name in files.files]
        if output.json:
            jsonout.emit({"results": [result.to_json() for result in results]}, stdout)
        else:
            typer.echo("\n".join(shown(result) for result in results))
    return DONE


bench = typer.Typer(help="Measure: steps against their floors, decoding plain and drafted, reports.")
command(bench, "steps", steps, (CellOptions, OutputOptions))
command(bench, "decode", decode, (CellOptions, PairOptions, OutputOptions))
command(bench, "fleet", fleet, (GridOptions, TurnOptions, ArmOptions, OutputOptions))
command(bench, "batches", batches, (GridOptions, TurnOptions, OutputOptions))
command(bench, "report", report, (ReportOptions, OutputOptions))


def _measure(name: str, cells: CellOptions, pairs: PairOptions | None, output: OutputOptions) -> int:
    with jsonout.kept_clean(output.json) as stdout:
        device, _ = where(cells)
        asked = shapes(cells, device, _kind())
        suite = _suite(name, cells, pairs, output)
        code = DONE
        try:
            suite.run(asked)
        except KeyboardInterrupt:
            complain(f"interrupted; finished cells are kept in {cells.out}, and the same command goes on from there")
            code = INTERRUPTED
        _show(suite, output, stdout)
    return code or (FAILED if suite.failed else DONE)


def _kind() -> CellKind[CellShape]:
    from glimpse.bench.decode.shape import parse_cell

    return CellKind(parse_cell, Usual(1000, (1,), (4,)), Usual(8000, (1, 64), (4, 8)), (4, 8), in_step=True)


def _suite(name: str, cells: CellOptions, pairs: PairOptions | None, output: OutputOptions) -> Suite:
    """All options checked, then the machine measured."""
    from pathlib import Path

    import torch

    from glimpse.bench.decode.measure import Measuring
    from glimpse.bench.decode.models import Models
    from glimpse.bench.decode.suite import Suite
    from glimpse.bench.environment import known_commit, source_root
    from glimpse.bench.floors import measure_machine
    from glimpse.drafting import DRAFTERS
    from glimpse.engine.machine import refuse_threads

    if not DRAFTERS.get(cells.drafter).drafts:
        raise ArgumentError(f"drafter {cells.drafter!r} drafts nothing: plain decoding is measured beside any other")
    if cells.budget is not None and cells.budget < 1:
        raise ArgumentError(f"--budget {cells.budget}: a draft must read at least 1 position")
    refuse_threads(cells.threads)
    device, dtype = where(cells)
    known_commit(source_root(), cells.commit)
    laws, effort, text = temperatures(pairs.temperature) if pairs else (), _effort(pairs), text_of(cells)
    seconds = seconds_of("--seconds", cells.seconds)
    if cells.threads is not None:
        torch.set_num_threads(cells.threads)
    measuring = Measuring(
        Models(dtype, device), text, measure_machine(device, dtype), effort, cells.budget or 512, cells.drafter, laws
    )
    say = (lambda line: None) if output.quiet else complain
    return Suite(name, measuring, Path(cells.out), seconds, cells.commit, cells.fresh, output.debug, say)


def _effort(pairs: PairOptions | None) -> Effort:
    from glimpse.bench.decode.effort import Effort

    asked = {"pairs": pairs.pairs, "seconds": seconds_of("--cell-seconds", pairs.cell_seconds)} if pairs else {}
    if pairs and pairs.pairs is not None and pairs.pairs < 1:
        raise ArgumentError(f"--pairs {pairs.pairs}: at least 1 is needed")
    return Effort(**{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]


def _show(suite: Suite, output: OutputOptions, stdout: TextIO) -> None:
    """What was measured so far, if anything."""
    from glimpse.bench.report import shown

    if suite.result is None:
        return
    if output.json:
        jsonout.emit(suite.result.to_json(), stdout)
    else:
        typer.echo(f"{shown(suite.result)}\n{suite.out / suite.result.file_name}")

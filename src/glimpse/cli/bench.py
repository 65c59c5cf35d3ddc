"""`glimpse bench`: steps beside their floors, plain and drafted decoding in pairs, reports of result files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_fleet import ArmOptions, TurnOptions, batches, fleet
from glimpse.cli.bench_options import (
    CellKind,
    CellOptions,
    GridOptions,
    PairOptions,
    Usual,
    adapter_for,
    refuse_budget,
    seconds_of,
    shapes,
    shortest,
    temperatures,
    text_of,
    where,
)
from glimpse.cli.bench_run import machine_for, run_suite, suite_of
from glimpse.cli.bench_serve import LoadOptions, serve
from glimpse.cli.bench_timeline import TimelineOptions, timeline
from glimpse.cli.bench_tradeoff import TradeoffOptions, tradeoff
from glimpse.cli.commands import command
from glimpse.cli.failures import DONE
from glimpse.cli.options import OutputOptions
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    import torch

    from glimpse.bench.decode.effort import Effort
    from glimpse.bench.decode.measure import Measuring
    from glimpse.bench.decode.shape import CellShape


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
command(bench, "timeline", timeline, (GridOptions, TimelineOptions, OutputOptions))
command(bench, "tradeoff", tradeoff, (TradeoffOptions, OutputOptions))
command(bench, "serve", serve, (LoadOptions, OutputOptions))
command(bench, "report", report, (ReportOptions, OutputOptions))


def _measure(name: str, cells: CellOptions, pairs: PairOptions | None, output: OutputOptions) -> int:
    with jsonout.kept_clean(output.json) as stdout:
        device = where(cells)[0].device
        _refuse_drafter(cells.drafter, device)
        asked = shapes(cells, device, _kind())
        suite = suite_of(name, _measuring(cells, pairs, asked), cells, output)
        return run_suite(suite, asked, output, stdout)


def _kind() -> CellKind[CellShape]:
    from glimpse.bench.decode.shape import parse_cell

    return CellKind(parse_cell, Usual(1000, (1,), (4,)), Usual(8000, (1, 64), (4, 8)), (4, 8), in_step=True)


def _refuse_drafter(name: str, device: torch.device) -> None:
    """Raises ArgumentError for a drafter that cannot draft so many tokens as it is told, or not on this device."""
    from glimpse.drafting import DRAFTERS

    offered = DRAFTERS.get(name)
    if not offered.drafts:
        raise ArgumentError(f"drafter {name!r} drafts nothing: plain decoding is measured beside any other")
    if offered.paced_by not in (None, "fixed"):
        raise ArgumentError(
            f"drafter {name!r} chooses its lengths itself, and here every length is given: use another, or measure it "
            "by glimpse compare"
        )
    if device.type == "cuda" and name != "sparse":
        raise ArgumentError(f"drafter {name!r} does not run here on a GPU yet: use sparse, or --device cpu")


def _measuring(cells: CellOptions, pairs: PairOptions | None, asked: Sequence[CellShape]) -> Measuring:
    """All options checked, then the machine measured."""
    from glimpse.bench.decode.measure import Measuring
    from glimpse.bench.decode.models import Models
    from glimpse.bench.floors import measure_machine

    refuse_budget(cells, cells.drafter)
    adapter = adapter_for(cells.adapter, [cells.drafter], f"drafter {cells.drafter!r}")
    laws, effort, text = (
        temperatures(pairs.temperature) if pairs else (),
        _effort(pairs),
        text_of(cells, shortest(asked)),
    )
    device, dtype = machine_for(cells)
    machine = measure_machine(device, dtype)
    return Measuring(Models(dtype, device), text, machine, effort, cells.budget or 512, cells.drafter, laws, adapter)


def _effort(pairs: PairOptions | None) -> Effort:
    from glimpse.bench.decode.effort import Effort

    asked = {"pairs": pairs.pairs, "seconds": seconds_of("--cell-seconds", pairs.cell_seconds)} if pairs else {}
    if pairs and pairs.pairs is not None and pairs.pairs < 1:
        raise ArgumentError(f"--pairs {pairs.pairs}: at least 1 is needed")
    return Effort(**{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]

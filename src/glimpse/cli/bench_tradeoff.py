"""`glimpse bench tradeoff`: what a lossy mode buys, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_options import GridOptions, numbers, text_of
from glimpse.cli.bench_run import machine_for, run_suite, suite_of
from glimpse.cli.options import OutputOptions, option
from glimpse.cli.parsing import whole
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from glimpse.bench.results import Result
    from glimpse.bench.tradeoff.measure import TradeoffMeasuring
    from glimpse.bench.tradeoff.modes import Mode

_WHAT = "What is measured"


@dataclass(frozen=True, kw_only=True)
class TradeoffOptions(GridOptions):
    """Modes in the place of cells; one context and one batch."""

    cells: Annotated[
        list[str],
        typer.Argument(
            metavar="MODE",
            help="DRAFTER@N, slowfast, slowfast-exact or RULE:STRENGTH@N, such as cactus:1@5. Default: all rules over "
            "their grids, and sparse at every draft length.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    tokens: Annotated[int | None, option(_WHAT, "Tokens of each text. Default: 64.", "--tokens")] = None
    texts: Annotated[int | None, option(_WHAT, "Texts, and so prompts of each task. Default: 2.", "--texts")] = None


def tradeoff(options: TradeoffOptions, output: OutputOptions) -> int:
    """Set lossy modes beside lossless ones: speed, laws along the exact path, perplexity, lengths, scores (SVG)."""
    from glimpse.bench.tradeoff.modes import usual_modes
    from glimpse.bench.tradeoff.tables import tables, targets

    with jsonout.kept_clean(output.json) as stdout:
        drafts = numbers("--draft", options.draft, whole) or [3, 5, 10]
        if not all(1 <= count <= 256 for count in drafts):
            raise ArgumentError(f"--draft {options.draft!r}: lengths from 1 to 256 are possible")
        modes = _modes(options.cells, drafts) or usual_modes(drafts)
        measuring = _measuring(options)
        suite = suite_of("tradeoff", measuring, options, output, tables=tables, targets=targets)
        return run_suite(suite, modes, output, stdout, _figure)


def _modes(typed: list[str], drafts: list[int]) -> list[Mode]:
    """Those asked for, plain decoding first: everything is measured beside it."""
    from glimpse.bench.tradeoff.modes import PLAIN, parse_mode

    usual = drafts[len(drafts) // 2]
    return list(dict.fromkeys(parse_mode(text, usual) for text in [PLAIN, *typed])) if typed else []


def _figure(result: Result, folder: Path) -> list[Path]:
    from glimpse.bench.tradeoff.figure import draw
    from glimpse.bench.tradeoff.tables import worth

    typer.echo(worth([dict(run) for run in result.runs]), err=True)
    return draw(result, folder)


def _measuring(options: TradeoffOptions) -> TradeoffMeasuring:
    """All options checked, then the machine measured."""
    from glimpse.bench.decode.models import Models
    from glimpse.bench.floors import measure_machine
    from glimpse.bench.tradeoff.measure import BUDGET, Effort, TradeoffMeasuring
    from glimpse.model import resolve_model

    asked = {
        "context": _one("--context", options.context, 64),
        "rows": _one("--batch", options.batch, 1),
        "tokens": _least("--tokens", options.tokens, 16),
        "texts": _least("--texts", options.texts, 1),
    }
    effort = Effort(**{name: value for name, value in asked.items() if value is not None})
    text, source = text_of(options, effort.context), options.model or "demo"
    resolve_model(source.partition("@")[0])
    device, dtype = machine_for(options)
    machine = measure_machine(device, dtype)
    return TradeoffMeasuring(Models(dtype, device), machine, text, source, options.budget or BUDGET, effort)


def _one(name: str, text: str | None, least: int) -> int | None:
    found = numbers(name, text, whole)
    if len(found) > 1:
        raise ArgumentError(f"{name} {text!r}: one number; run the others apart")
    return _least(name, found[0], least) if found else None


def _least(name: str, value: int | None, least: int) -> int | None:
    if value is not None and value < least:
        raise ArgumentError(f"{name} {value}: at least {least} is needed")
    return value

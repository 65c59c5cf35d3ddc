"""What all measuring commands of `glimpse bench` do alike: checks before anything is loaded, running, showing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_options import GridOptions, seconds_of, where
from glimpse.cli.failures import DONE, FAILED, INTERRUPTED, complain
from glimpse.cli.options import OutputOptions
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from glimpse.bench.decode.suite import Measures, Suite
    from glimpse.bench.results import Result

Figures = Callable[["Result", "Path"], "list[Path]"]
"""Draws what is in a result file into a folder; returns the files."""


def machine_for(cells: GridOptions) -> tuple[torch.device, torch.dtype]:
    """Device and dtype, all that concerns every cell having been checked, and the threads set. Raises ArgumentError."""
    import torch

    from glimpse.bench.environment import known_commit, source_root

    if cells.budget is not None and cells.budget < 1:
        raise ArgumentError(f"--budget {cells.budget}: a draft must read at least 1 position")
    found, dtype = where(cells)
    known_commit(source_root(), cells.commit)
    seconds_of("--seconds", cells.seconds)
    if cells.threads is not None:
        torch.set_num_threads(cells.threads)
    if found.warn:
        complain(f"running on the CPU: {found.reason}")
    if found.device.type == "cuda":
        torch.cuda.set_device(found.device)  # What is measured beside the model is measured there too.
    return found.device, dtype


def suite_of(name: str, measuring: Measures, cells: GridOptions, output: OutputOptions, **more: Any) -> Suite:
    """The cells of one command, not yet run."""
    from pathlib import Path

    from glimpse.bench.decode.suite import Suite

    say = (lambda line: None) if output.quiet else complain
    out, debug = Path(cells.out), output.debug
    return Suite(name, measuring, out, cells.seconds, cells.commit, cells.fresh, debug, say, complain, **more)


def run_suite(
    suite: Suite, asked: Sequence[Any], output: OutputOptions, stdout: TextIO, figures: Figures | None = None
) -> int:
    """Measures, and shows what there is, Ctrl-C or not; the exit code."""
    code = DONE
    try:
        suite.run(asked)
    except KeyboardInterrupt:
        kept = f"finished cells are kept in {suite.out}, and the same command goes on from there"
        complain(f"interrupted; {kept if suite.result else 'nothing was measured yet'}")
        code = INTERRUPTED
    _show(suite, output, stdout, figures)
    return code or (FAILED if suite.failed else DONE)


def _show(suite: Suite, output: OutputOptions, stdout: TextIO, figures: Figures | None) -> None:
    """What was measured so far, if anything."""
    from glimpse.bench.report import shown

    if suite.result is None:
        return
    paths = [suite.out / suite.result.file_name, *(figures(suite.result, suite.out) if figures else [])]
    if output.json:
        jsonout.emit(suite.result.to_json(), stdout)
    else:
        typer.echo("\n".join([shown(suite.result), *map(str, paths)]))

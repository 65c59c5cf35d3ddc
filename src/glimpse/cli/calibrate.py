"""`glimpse calibrate`: what steps cost on this device with this model, measured and kept."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Annotated

from rich.console import RenderableType
from rich.table import Table

from glimpse.cli import _session, jsonout, report
from glimpse.cli.failures import DONE, complain
from glimpse.cli.options import ModelOptions, OutputOptions, given, option
from glimpse.cli.progress import Bars
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from glimpse.cli.contract import Model
    from glimpse.pacing.calibration import Calibration
    from glimpse.planning.effort import Effort

_PANEL = "What is measured"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """What is measured, and how long that may take."""

    model: Annotated[
        str, option(_PANEL, "demo, a checkpoint folder or a GGUF file. Default: demo.", "--model", "-m")
    ] = "demo"
    dtype: Annotated[str | None, option(_PANEL, "float32, bfloat16, float16 or auto.", "--dtype")] = None
    device: Annotated[
        str | None, option(_PANEL, "cpu, cuda, cuda:N or auto: a GPU if one can be used, else the CPU.", "--device")
    ] = None
    max_context: Annotated[int | None, option(_PANEL, "Longest context to measure.", "--max-context")] = None
    max_batch: Annotated[
        int | None,
        option(_PANEL, "Most requests at once to measure; GPU only. Default: 64, or what fits.", "--max-batch"),
    ] = None
    threads: Annotated[int | None, option(_PANEL, "CPU threads. Default: PyTorch's choice.", "--threads")] = None
    seconds: Annotated[
        float | None,
        option(
            _PANEL,
            "About how long to measure, all kinds of step at least once; twice that on a busy machine. Default: 60.",
            "--seconds",
        ),
    ] = None
    fresh: Annotated[
        bool,
        option(_PANEL, "Keep what is measured even on a busy machine, in the place of a better one.", "--fresh"),
    ] = False


def calibrate(options: CalibrateOptions, output: OutputOptions) -> int:
    """Measure what plain steps, draft steps and verifications cost here, and keep it: later runs start from it."""
    with jsonout.kept_clean(output.json) as stdout, Bars(quiet=output.quiet) as bars:
        from glimpse.pacing.calibration import refuse_unwritable, refuse_worse, write
        from glimpse.planning.effort import effort_for

        seconds, opened = _seconds(options.seconds), _opened(options)
        refuse_unwritable()
        with _session.session(opened, bars) as llm:
            effort = effort_for(str(llm.settings["device"]), seconds, llm.loaded.slots)
            found = _measured(llm, effort, bars)
        if not options.fresh:
            refuse_worse(found)
        path = write(found)
        bars.clear()
        if found.uneven:
            complain(f"{_spread(found)} at best: prices may be off by as much; run it again when nothing else runs")
        if output.json:
            jsonout.emit(found.as_json() | {"file": str(path)}, stdout)
        elif not output.quiet:
            report.show(*_lines(found, path))
    return DONE


def _measured(llm: Model, effort: Effort, bars: Bars) -> Calibration:
    """The better of two measurements where the first shows that the machine does something else too."""
    from glimpse.planning.measure import calibrate as measure

    def hear(done: int, total: int) -> None:
        bars("calibrate", done, total)

    found = measure(llm.loaded, effort, hear)
    if not found.uneven:
        return found
    bars.clear()
    complain(f"{_spread(found)}: the machine is busy; measuring once more")
    return min(found, measure(llm.loaded, effort, hear), key=lambda one: one.spread or 0)


def _spread(found: Calibration) -> str:
    return f"repeats of a step take {found.spread or 0:.0%} longer than the fastest of them"


@dataclass(frozen=True, kw_only=True)
class _Opened(ModelOptions):
    """What `LLM` is opened with, rows included."""

    max_batch_size: int | None = None


def _opened(options: CalibrateOptions) -> _Opened:
    from glimpse.planning.effort import sizes_for

    sizes = sizes_for(
        options.model, options.device or "auto", options.dtype or "auto", options.max_context, options.max_batch
    )
    own = given(options) | sizes
    return _Opened(**{name: value for name, value in own.items() if name not in ("seconds", "max_batch", "fresh")})


def _seconds(asked: float | None) -> float:
    if asked is not None and not 0 < asked < 3600:
        raise ArgumentError(f"--seconds must be more than 0 and less than 3600, not {asked:g}")
    return asked or 60.0


def _lines(found: Calibration, path: Path) -> list[RenderableType]:
    return [
        f"{found.model}, {found.dtype}, on {found.device}",
        _steps(found),
        f"fit: half of the kinds within {_median_error(found):.0%}, the worst off by {_worst_error(found):.0%}; "
        f"repeats take {found.spread or 0:.0%} longer than the fastest of them",
        _prices(found),
        f"memory bandwidth {found.bandwidth / 1e9:,.1f} GB/s · matrix products {found.rate / 1e12:,.3g} TFLOP/s",
        "later runs with this model start from what is kept; glimpse plan --device FILE takes its prices from it, for "
        "other models bandwidth and rate",
        f"FILE: {path}",
    ]


def _steps(found: Calibration) -> Table:
    from glimpse.pacing.costs import FEATURES

    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for name in ("step", "positions read", "measured", "fitted", "error"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for point in found.points:
        loads = dict(zip(FEATURES[1:], point.load, strict=True))
        table.add_row(
            _kind(loads),
            f"{loads['full_kv'] + loads['draft_kv']:,.0f}",
            f"{point.seconds * 1e3:.2f} ms",
            f"{point.predicted * 1e3:.2f} ms",
            f"{point.error:+.0%}",
        )
    return table


def _kind(loads: dict[str, float]) -> str:
    if loads["draft_tokens"]:
        return f"draft {loads['draft_tokens']:.0f}" + (" (chooses its recall set)" if loads["rounds"] else "")
    return f"verify {loads['full_tokens']:.0f}" if loads["full_tokens"] > 1 else "plain"


def _prices(found: Calibration) -> Table:
    table = Table.grid(padding=(0, 2))
    for (name, unit, scale), value in zip(_UNITS, found.coefficients, strict=True):
        table.add_row(name, f"{value * scale:.3g} {unit}")
    return table


_UNITS = (
    ("a step", "ms", 1e3),
    ("a token that reads everything", "ms", 1e3),
    ("a draft token", "ms", 1e3),
    ("1,000 positions of a row that reads everything", "ms", 1e6),
    ("1,000 positions of a draft row", "ms", 1e6),
    ("1,000 positions for each of its tokens", "ms", 1e6),
    ("choosing a recall set", "ms", 1e3),
    ("drafts and full reads in one step", "ms", 1e3),
    ("mask tokens in a step (not measured)", "ms", 1e3),
)
"""Names of `FEATURES` for people."""


def _median_error(found: Calibration) -> float:
    return median(abs(point.error) for point in found.points)


def _worst_error(found: Calibration) -> float:
    return max(abs(point.error) for point in found.points)

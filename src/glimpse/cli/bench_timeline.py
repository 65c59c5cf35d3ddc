"""`glimpse bench timeline`: a run of the engine, drawn row by row and step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from glimpse.cli import jsonout
from glimpse.cli.bench_fleet import fleet_kind
from glimpse.cli.bench_options import (
    GridOptions,
    Usual,
    adapter_for,
    reads_cache,
    refuse_budget,
    shapes,
    shortest,
    text_of,
    where,
)
from glimpse.cli.bench_run import machine_for, run_suite, suite_of
from glimpse.cli.options import OutputOptions, option
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.bench.fleet.shape import FleetShape
    from glimpse.bench.timeline.measure import TimelineMeasuring

_RUN = "Run"


@dataclass(frozen=True, kw_only=True)
class TimelineOptions:
    """What is recorded."""

    drafter: Annotated[str, option(_RUN, "Who drafts. Default: sparse.", "--drafter")] = "sparse"
    pacer: Annotated[
        str | None, option(_RUN, "Who sets each row's pace. Default: fleet; drafter auto has its own.", "--pacer")
    ] = None
    adapter: Annotated[
        str | None, option(_RUN, "The file of drafter block, or for auto to choose it too.", "--adapter")
    ] = None
    steps: Annotated[int | None, option(_RUN, "Steps that are drawn. Default: 160.", "--steps")] = None


def timeline(cells: GridOptions, run: TimelineOptions, output: OutputOptions) -> int:
    """Draw what each row did in each step (SVG): prefill, draft, verify or plain, as requests come and leave."""
    from glimpse.bench.timeline.measure import draw, tables, targets

    with jsonout.kept_clean(output.json) as stdout:
        kind = fleet_kind(Usual(400, (6,), (8,)), Usual(8000, (32,), (8,)))
        asked = shapes(cells, where(cells)[0].device, kind)
        suite = suite_of("timeline", _measuring(cells, run, asked), cells, output, tables=tables, targets=targets)
        return run_suite(suite, asked, output, stdout, draw)


def _measuring(cells: GridOptions, run: TimelineOptions, asked: Sequence[FleetShape]) -> TimelineMeasuring:
    """All options checked, then the machine measured."""
    from glimpse.bench.decode.models import Models
    from glimpse.bench.floors import measure_machine
    from glimpse.bench.timeline.measure import TimelineMeasuring
    from glimpse.bench.timeline.record import Traffic
    from glimpse.drafting import DRAFTERS
    from glimpse.engine.build import check_names, refuse_unused
    from glimpse.engine.options import EngineOptions

    if run.steps is not None and not 1 <= run.steps <= 2000:
        raise ArgumentError(f"--steps {run.steps}: from 1 to 2,000 can be drawn")
    refuse_budget(cells, run.drafter)
    reads = {"budget": 0.001, "budget_floor": cells.budget or 512} if reads_cache(run.drafter) else {}
    pacer = run.pacer or DRAFTERS.get(run.drafter).paced_by or "fleet"
    adapter = adapter_for(run.adapter, [run.drafter], f"drafter {run.drafter!r}")
    options = EngineOptions(run.drafter, pacer, prefix_reuse=False, adapter=adapter, **reads)  # type: ignore[arg-type]
    check_names(options)
    refuse_unused(options)
    traffic, text = Traffic() if run.steps is None else Traffic(run.steps), text_of(cells, shortest(asked))
    device, dtype = machine_for(cells)
    return TimelineMeasuring(Models(dtype, device), text, measure_machine(device, dtype), options, traffic)

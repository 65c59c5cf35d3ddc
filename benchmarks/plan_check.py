"""What `glimpse plan` predicts against what was measured: steps, speedups and best draft lengths of every cell.

    PYTHONPATH=src python -m benchmarks.plan_check [FILE ...]          # FILE: results of the decode bench, gpu_peers.py

Each cell is predicted four times: by floors alone; by the device table; by the table's form fitted to all other cells
("left out": does it carry over to cells it has not seen?); and by the surface of `glimpse calibrate` fitted to the
other cells of the same model, where there are two at least. Speedups are predicted at the acceptance measured in the
cell. Writes `h200-plan.json` beside the results, prints its tables, and the overheads that fit all cells together: they
are what `glimpse.planning.devices` should hold.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.plan_cells import read_cells
from benchmarks.plan_judge import METHODS, TABLE, fitted, judged
from glimpse.bench import environment
from glimpse.bench.results import Result, Target, write_result
from glimpse.bench.results import Table as Shown
from glimpse.errors import GlimpseError
from glimpse.planning import find_device

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FILES = ("h200-decode.json", "h200-peers.json")
STEP_LIMIT, SPEEDUP_LIMIT, LOSS_LIMIT = 0.10, 0.10, 0.02
"""Set beforehand: median relative errors, and what taking the predicted one of the measured draft lengths may lose."""
WHY = "see docs/planning.md"

Runs = Sequence[dict[str, Any]]


def errors(runs: Runs, method: str) -> tuple[list[float], list[float], list[float]]:
    """(of steps, of speedups, losses of the draft length chosen), all of one method."""
    own = [run for run in runs if run["method"] == method]
    laws = [law for run in own for law in run["laws"]]
    return (
        [abs(step["error"]) for run in own for step in run["steps"]],
        [abs(arm["error"]) for law in laws for arm in law["speedups"]],
        [law["loss"] for law in laws],
    )


def targets(runs: Runs) -> Iterator[Target]:
    """What the table's and the carried-over predictions must be right to."""
    for method in (TABLE, "left out"):
        steps, speedups, losses = errors(runs, method)
        yield Target(f"{method}: median error of a step", f"<= {STEP_LIMIT}", median(steps))
        yield Target(f"{method}: median error of a speedup", f"<= {SPEEDUP_LIMIT}", median(speedups))
        yield Target(f"{method}: most that the predicted draft length loses", f"<= {LOSS_LIMIT}", max(losses))


def methods(runs: Runs) -> Shown:
    """How far off each method is, over all cells."""
    columns = ["predicted by", "cells", "steps: median error", "worst", "speedups: median error", "worst",
               "lost by the draft length chosen, at most"]  # fmt: skip
    rows = []
    for method in METHODS:
        own = [run for run in runs if run["method"] == method]
        if own:
            steps, speedups, losses = errors(runs, method)
            shares = median(steps), max(steps), median(speedups), max(speedups), max(losses)
            rows.append([method, str(len(own)), *(f"{share:.1%}" for share in shares)])
    return Shown("`glimpse plan` beside the cells measured on an H200: how far predictions are off", columns, rows)


def details(runs: Runs) -> list[Shown]:
    """The steps of each cell, and the speedups."""
    return [_steps(runs), _speedups(runs)]


def _steps(runs: Runs) -> Shown:
    columns = ["cell", "step", "measured, ms", *METHODS]
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for step in run["steps"]:
            row = found.setdefault(
                (run["cell"], step["step"]), [f"{step['measured'] * 1e3:.2f}"] + ["-"] * len(METHODS)
            )
            row[1 + list(METHODS).index(run["method"])] = f"{step['predicted'] * 1e3:.2f} ({step['error']:+.0%})"
    return Shown("Steps: milliseconds predicted, and the error", columns, [[*key, *row] for key, row in found.items()])


def _speedups(runs: Runs) -> Shown:
    columns = ["cell", "law", "drafts", "measured", *METHODS]
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for law in run["laws"]:
            for arm in law["speedups"]:
                key = run["cell"], law["law"], str(arm["drafts"])
                row = found.setdefault(key, [f"{arm['measured']:.2f}"] + ["-"] * len(METHODS))
                row[1 + list(METHODS).index(run["method"])] = f"{arm['predicted']:.2f} ({arm['error']:+.0%})"
    return Shown("Speedups at the measured acceptance", columns, [[*key, *row] for key, row in found.items()])


def _print(table: Shown) -> None:
    print(f"\n{table.title}\n")
    for row in (table.columns, ["---"] * len(table.columns), *table.rows):
        print(f"| {' | '.join(row)} |")


def check(paths: Sequence[Path], out: Path) -> Result:
    """Judges the cells of `paths`, and writes the result file into `out`."""
    device, cells = find_device("h200"), read_cells(paths)
    runs = [entry for cell in cells if cell.laws for entry in judged(cell, cells, device)]
    runs += [entry for cell in cells if not cell.laws for entry in judged(cell, cells, device)]
    commit, dirty = environment.commit(ROOT)
    result = Result(
        suite="plan",
        device={"kind": "h200", "name": "H200 as predicted", "cores": os.cpu_count() or 1, "threads": 1},
        versions=environment.versions(),
        commit=commit,
        dirty=dirty,
        quick=False,
        settings={
            "files": [path.name for path in paths],
            "device": asdict(device),
            "fit": asdict(fitted(cells, device)),
        },
        runs=runs,
        targets=[target.noted(WHY) for target in targets(runs)],
        tables=[methods(runs)],
    )
    write_result(result, out)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    try:
        result = check(options.files or [RESULTS / name for name in FILES if (RESULTS / name).is_file()], options.out)
    except GlimpseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for table in (*result.tables, *details(result.runs)):
        _print(table)
    print()
    for target in result.targets:
        print(f"{'pass ' if target.ok else 'short'} {target.what}: {target.value:.3f} ({target.target})")
    print("overheads that fit all cells:", result.settings["fit"])
    return 0


if __name__ == "__main__":
    sys.exit(main())

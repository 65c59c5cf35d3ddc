"""Speed against straying on a GPU, a figure a cell: measured speeds where a mode ran as graphs, else reckoned ones.

    PYTHONPATH=src:. python -m benchmarks.tradeoff_figure --out benchmarks/results \
        benchmarks/results/h200-tradeoff.json \
        benchmarks/results/h200-tradeoff_batches.json benchmarks/results/h200-tradeoff_relaxed.json

The first file says how far modes stray, and how fast they are as reckoned from steps; the others, of `--speed-cells`,
how fast whole batches were. Slow-Fast Inference has to be measured: what is reckoned of it leaves out too much
(docs/lossy.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from glimpse.bench.results import Result, read_result, write_whole
from glimpse.bench.tradeoff.figure import figure

_NOTE = "eager rules as reckoned"
Speeds = Mapping[tuple[str, str], float]
"""(cell, mode) -> speed over plain decoding."""


def measured(results: Sequence[Result]) -> Speeds:
    """Of whole batches, the fastest draft length of a mode where several were timed."""
    found: dict[tuple[str, str], float] = {}
    for run in (run for result in results for run in result.runs):
        own = run["measured"]
        plain = fmean(speed for mode in own if mode["mode"] == "plain" for speed in mode["speeds"])
        for mode in own:
            key = mode["cell"], mode["mode"].partition("@")[0] if ":" in mode["mode"] else mode["mode"]
            found[key] = max(found.get(key, 0.0), fmean(mode["speeds"]) / plain)
    return found


def cells_of(straying: Result, speeds: Speeds) -> dict[str, list[dict[str, Any]]]:
    """By cell, its modes as `figure` takes them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in straying.runs:
        cell = str(run["cell"]).removesuffix(f" {run['mode']}")
        speed = speeds.get((cell, run["mode"]), run.get("reckoned_speed"))
        if speed is not None:
            found.setdefault(cell, []).append({**run, "name": run["mode"], "speedup": speed})
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """One path a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("straying", type=Path)
    parser.add_argument("speeds", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    given = parser.parse_args(argv)
    straying = read_result(given.straying)
    for cell, modes in cells_of(straying, measured([read_result(path) for path in given.speeds])).items():
        name = "-".join(cell.split())
        path = given.out / f"{straying.device['kind']}-{straying.suite}-{name}.svg"
        write_whole(path, figure(modes, f"{straying.device['name']}, {cell}, {_NOTE}"))
        print(path)


if __name__ == "__main__":
    main()

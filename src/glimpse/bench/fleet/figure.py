"""The figure of growing batches: tokens a second with and without drafts, and how many times as fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glimpse.bench.figures.panel import Panel, decades
from glimpse.bench.figures.svg import Svg
from glimpse.bench.fleet.arms import FLEET, NONE
from glimpse.bench.fleet.targets import NEVER_BELOW
from glimpse.bench.results import Result, write_whole

_WIDTH, _LEFT, _RIGHT = 760, 86, 24
_NAMES = {NONE: "plain decoding", FLEET: "drafting (sparse, paced by fleet)"}
_COLOUR = {NONE: "orange", FLEET: "blue"}


def draw(result: Result, folder: Path) -> list[Path]:
    """Writes a figure for each model and context of a result file with growing batches; returns the paths."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in result.runs:
        if "arms" in run:
            groups.setdefault(f"{run['name'].split()[0]} {run['context']}", []).append(dict(run))
    paths = []
    for name, runs in groups.items():
        path = folder / f"{result.device['kind']}-{result.suite}-{name.replace(' ', '-')}.svg"
        write_whole(path, figure(runs, f"{result.device['name']}"))
        paths.append(path)
    return paths


def figure(runs: Sequence[dict[str, Any]], where: str) -> str:
    """The SVG of batches of one model and context."""
    runs = sorted(runs, key=lambda run: int(run["rows"]))
    first, rows = runs[0], [run["rows"] for run in runs]
    rates = {name: [(run["rows"], _arm(run, name)["tokens_per_s"]) for run in runs] for name in (NONE, FLEET)}
    ratios = [(run["rows"], _arm(run, FLEET)["speedup"]) for run in runs]
    page = Svg(_WIDTH, 560, "Tokens a second as the batch grows, with and without drafts")
    page.text(_LEFT, 30, f"{first['model'].split(',')[0]}, context {first['context']:,}: as the batch grows", size=16,
              bold=True)  # fmt: skip
    page.text(_LEFT, 50, f"{where}, {first['law']}, {first['how']}", size=12, colour="faint")
    _legend(page)
    width = _WIDTH - _LEFT - _RIGHT
    values = [rate for own in rates.values() for _, rate in own]
    ticks = decades(min(values), max(values))
    upper = Panel(_LEFT, 88, width, 230, ticks[0], ticks[-1], rows[0], rows[-1], log=True)
    upper.frame(page, rows, ticks, lambda value: f"{value:,.0f}" if value >= 1 else f"{value:g}", "tokens per second")
    for name, points in rates.items():
        upper.draw(page, points, _COLOUR[name])
    most = max(2, *(int(ratio) + 1 for _, ratio in ratios))
    steps = [tick / 2 for tick in range(2 * most + 1)]
    lower = Panel(_LEFT, 342, width, 150, 0, most, rows[0], rows[-1])
    lower.frame(page, rows, steps[:: max(1, len(steps) // 7)], lambda value: f"{value:g}", "times plain",
                below="requests at once")  # fmt: skip
    floor = lower.y(NEVER_BELOW)
    page.line([(_LEFT, floor), (_LEFT + width, floor)], "ink", 1.2, dashed=True)
    page.text(_LEFT + width, floor + 15, f"never below {NEVER_BELOW}", size=12, anchor="end")
    lower.draw(page, ratios, "blue")
    return str(page)


def _legend(page: Svg) -> None:
    place = float(_LEFT)
    for name, words in _NAMES.items():
        page.line([(place, 70), (place + 22, 70)], _COLOUR[name], 2)
        page.circle(place + 11, 70, 3.5, _COLOUR[name])
        page.text(place + 28, 74, words, size=12)
        place += 40 + 6.6 * len(words)


def _arm(run: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(arm for arm in run["arms"] if arm["arm"] == name)
    return found

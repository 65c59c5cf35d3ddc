"""The Pareto figure: speed over plain decoding against the total variation of the emitted law."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glimpse.bench.figures.panel import Panel
from glimpse.bench.figures.svg import Svg
from glimpse.bench.results import Result, write_whole
from glimpse.bench.tradeoff.tables import frontier

_WIDTH, _HEIGHT, _LEFT = 760, 470, 86
_LEAST = 1e-4
"""What strays less is drawn here."""


def draw(result: Result, folder: Path) -> list[Path]:
    """Writes the figure of a result file; returns its path, or nothing where no mode was measured."""
    cells = [dict(run) for run in result.runs if "speedup" in run]
    if not cells:
        return []
    path = folder / f"{result.device['kind']}-{result.suite}.svg"
    write_whole(path, figure(cells, str(result.device["name"])))
    return [path]


def figure(cells: Sequence[dict[str, Any]], where: str) -> str:
    """The SVG: lossless modes green, lossy ones orange, those that nothing beats joined and named."""
    page = Svg(_WIDTH, _HEIGHT, "Speed over plain decoding against how far a mode strays")
    page.text(_LEFT, 30, "Speed against straying: up is faster, left is truer", size=16, bold=True)
    page.text(_LEFT, 50, f"{where}; green: lossless, orange: lossy; those on the line are beaten by none", size=12,
              colour="faint")  # fmt: skip
    most = max(cell["speedup"] for cell in cells) * 1.1
    panel = Panel(_LEFT, 76, _WIDTH - _LEFT - 30, 320, 0.0, most, _LEAST, 1.0)
    ticks = [tick / 4 for tick in range(int(most * 4) + 1)]
    panel.frame(page, [1e-4, 1e-3, 1e-2, 1e-1, 1.0], ticks[:: max(1, len(ticks) // 8)], lambda value: f"{value:g}",
                "times plain", below="total variation a token (1e-4: none)")  # fmt: skip
    best = frontier(cells)
    page.line([_place(panel, cell) for cell in best], "ink", 1.2, dashed=True)
    for cell in cells:
        page.circle(*_place(panel, cell), 4, "green" if cell["lossy"] is None else "orange")
    for cell in best:
        x, y = _place(panel, cell)
        page.text(x + 6, y - 6, cell["name"], size=11)
    return str(page)


def _place(panel: Panel, cell: dict[str, Any]) -> tuple[float, float]:
    return panel.x(max(cell["tv"], _LEAST)), panel.y(cell["speedup"])

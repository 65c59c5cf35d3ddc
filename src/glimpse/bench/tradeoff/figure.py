"""The Pareto figure: speed over plain decoding against the total variation of the emitted law."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from pathlib import Path
from typing import Any

from glimpse.bench.figures.panel import Panel
from glimpse.bench.figures.svg import Svg
from glimpse.bench.results import Result, write_whole
from glimpse.bench.tradeoff.tables import frontier

_WIDTH, _HEIGHT, _LEFT = 760, 470, 86
_LEAST = 1e-4
"""What strays less counts as not straying."""
_LETTER, _ROW = 6.2, 13
"""How wide a letter of a name is, about, and how high a line of them, in pixels."""


def draw(result: Result, folder: Path) -> list[Path]:
    """Writes the figure of a result file; returns its path, or nothing where no mode was measured."""
    cells = [dict(run) for run in result.runs if "speedup" in run]
    if not cells:
        return []
    path = folder / f"{result.device['kind']}-{result.suite}.svg"
    write_whole(path, figure(cells, str(result.device["name"])))
    return [path]


def figure(cells: Sequence[dict[str, Any]], where: str) -> str:
    """The SVG: lossless modes green, lossy ones orange, all named, those that nothing beats joined."""
    page = Svg(_WIDTH, _HEIGHT, "Speed over plain decoding against how far a mode strays")
    page.text(_LEFT, 30, "Speed against straying: up is faster, left is truer", size=16, bold=True)
    page.text(_LEFT, 50, f"{where}; green: lossless, orange: lossy; on the line: beaten by none", size=12,
              colour="faint")  # fmt: skip
    most = max(cell["speedup"] for cell in cells) * 1.1
    marks = _marks(cells)
    panel = Panel(_LEFT, 76, _WIDTH - _LEFT - 30, 320, 0.0, most, marks[0], 1.0)
    ticks = [tick / 4 for tick in range(int(most * 4) + 1)]
    panel.frame(page, marks, ticks[:: max(1, len(ticks) // 8)], lambda value: f"{value:g}", "times plain",
                below=f"total variation a token ({marks[0]:g}: none)")  # fmt: skip
    best = frontier(cells)
    page.line([_place(panel, cell) for cell in best], "ink", 1.2, dashed=True)
    for cell in cells:
        page.circle(*_place(panel, cell), 4, "green" if cell["lossy"] is None else "orange")
    _name(page, panel, best, [cell for cell in cells if cell not in best])
    return str(page)


def _marks(cells: Sequence[dict[str, Any]]) -> list[float]:
    """Powers of ten up to 1, from one below all that strays."""
    least = min((cell["tv"] for cell in cells if cell["tv"] > _LEAST), default=_LEAST)
    return [10.0**power for power in range(max(-4, floor(log10(least))), 1)]


def _name(page: Svg, panel: Panel, best: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> None:
    """Writes names beside their points: of the best above, of the others below those that stand there already."""
    taken: list[tuple[float, float, float]] = []
    for cells, colour, step in ((best, "ink", -_ROW), (others, "faint", _ROW)):
        for cell in cells:
            name, (x, y) = cell["name"], _place(panel, cell)
            left, right, base = x + 6, x + 6 + _LETTER * len(name), y + (-6 if step < 0 else 4)
            while any(left < end and begin < right and abs(base - other) < _ROW for begin, end, other in taken):
                base += step
            taken.append((left, right, base))
            page.text(left, base, name, size=11, colour=colour)


def _place(panel: Panel, cell: dict[str, Any]) -> tuple[float, float]:
    return panel.x(max(cell["tv"], panel.first)), panel.y(cell["speedup"])

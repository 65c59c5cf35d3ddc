"""A small SVG document: shapes by class, one style sheet with a light and a dark palette."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "grid": "#d9dee3", "idle": "#f0f2f4"}
_DARK = {"paper": "#0d1117", "ink": "#e6edf3", "faint": "#9198a1", "grid": "#30363d", "idle": "#171c23"}
COLOURS = (("blue", "#2b6fb3", "#5aa2e6"), ("orange", "#d9730d", "#f0933c"), ("green", "#3a8a4d", "#5cbf73"),
           ("violet", "#7a5bb0", "#a98be0"))  # fmt: skip
"""Names, on light and on dark pages."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


class Svg:
    """Shapes on a page of `width` by `height`; classes are the colours' names, "ink", "faint", "grid" and "idle"."""

    def __init__(self, width: float, height: float, title: str) -> None:
        """`title`: read aloud, and shown where the figure is pointed at."""
        self.width, self.height, self._title = width, height, title
        self._shapes: list[str] = []
        self.rect(0, 0, width, height, "paper")

    def rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        self._shapes.append(f'<rect class="{colour}" x="{x:g}" y="{y:g}" width="{width:.4g}" height="{height:.4g}"/>')

    def circle(self, x: float, y: float, radius: float, colour: str) -> None:
        """A filled circle."""
        self._shapes.append(f'<circle class="{colour}" cx="{x:.5g}" cy="{y:.5g}" r="{radius:g}"/>')

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, thick: float = 1, *, dashed: bool = False
    ) -> None:
        """A line through points."""
        path = " ".join(f"{x:.5g},{y:.5g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._shapes.append(f'<polyline class="{colour}-line" stroke-width="{thick:g}"{dashes} points="{path}"/>')

    def text(
        self, x: float, y: float, words: str, *, size: float = 13, colour: str = "ink", anchor: str = "start",
        bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        """Words; `anchor` start, middle or end; `turned` upwards."""
        more = ' font-weight="600"' if bold else ""
        more += f' transform="rotate(-90 {x:g} {y:g})"' if turned else ""
        self._shapes.append(
            f'<text class="{colour}" x="{x:.5g}" y="{y:.5g}" font-size="{size:g}" text-anchor="{anchor}"{more}>'
            f"{escape(words)}</text>"
        )

    def __str__(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" font-family="{_FONT}">\n'
            f"<title>{escape(self._title)}</title>\n<style>{_style()}</style>\n"
            + "\n".join(self._shapes)
            + "\n</svg>\n"
        )


def _style() -> str:
    light = _LIGHT | {name: own for name, own, _ in COLOURS}
    dark = _DARK | {name: own for name, _, own in COLOURS}
    return f"{_rules(light)} @media (prefers-color-scheme: dark) {{ {_rules(dark)} }}"


def _rules(palette: dict[str, str]) -> str:
    return " ".join(
        f".{name} {{ fill: {own} }} .{name}-line {{ fill: none; stroke: {own} }}" for name, own in palette.items()
    )

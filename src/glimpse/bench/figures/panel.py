"""A panel with a logarithmic axis of powers of two, and lines in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glimpse.bench.figures.svg import Svg


@dataclass(frozen=True, slots=True)
class Panel:
    """Where numbers lie on the page."""

    left: float
    top: float
    width: float
    height: float
    lowest: float
    highest: float
    """Of the upward axis."""
    first: float
    last: float
    """Of the sideward axis, which is logarithmic."""
    log: bool = False
    """Whether the upward axis is too."""

    def x(self, value: float) -> float:
        """Sideward."""
        span = math.log(self.last / self.first) or 1.0
        return self.left + self.width * math.log(value / self.first) / span

    def y(self, value: float) -> float:
        """Upward."""
        scale: Callable[[float], float] = math.log if self.log else float
        low, high = scale(self.lowest), scale(self.highest)
        return self.top + self.height * (1 - (scale(value) - low) / (high - low))

    def frame(
        self, page: Svg, across: Sequence[float], up: Sequence[float], shown: Callable[[float], str], label: str,
        *, below: str = "",
    ) -> None:  # fmt: skip
        """Grid lines at the ticks, their numbers, the upward axis' `label`, and the sideward one's where `below`."""
        for value in up:
            height = self.y(value)
            page.line([(self.left, height), (self.left + self.width, height)], "grid")
            page.text(self.left - 8, height + 4, shown(value), size=12, colour="faint", anchor="end")
        for value in across:
            place = self.x(value)
            page.line([(place, self.top), (place, self.top + self.height)], "grid")
            if below:
                page.text(place, self.top + self.height + 18, f"{value:g}", size=12, colour="faint", anchor="middle")
        page.text(self.left - 58, self.top + self.height / 2, label, anchor="middle", turned=True)
        if below:
            page.text(self.left + self.width / 2, self.top + self.height + 40, below, anchor="middle")

    def draw(self, page: Svg, points: Sequence[tuple[float, float]], colour: str) -> None:
        """A line with a dot at each point."""
        places = [(self.x(across), self.y(up)) for across, up in points]
        page.line(places, colour, 2)
        for x, y in places:
            page.circle(x, y, 3.5, colour)


def decades(low: float, high: float) -> list[float]:
    """Ticks 1, 2 and 5 of every power of ten that span two positive numbers, the ends included."""
    begin = math.floor(math.log10(low))
    ticks = [step * 10.0**power for power in range(begin, math.ceil(math.log10(high)) + 1) for step in (1, 2, 5)]
    under = max((tick for tick in ticks if tick <= low), default=ticks[0])
    over = min((tick for tick in ticks if tick >= high and tick > under), default=ticks[-1])
    return [tick for tick in ticks if under <= tick <= over]

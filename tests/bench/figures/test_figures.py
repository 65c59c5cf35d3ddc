"""Axes and shapes of figures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from glimpse.bench.figures.panel import Panel, decades
from glimpse.bench.figures.svg import Svg
from glimpse.bench.fleet.figure import figure

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.2, 8, [1, 2, 5, 10]),
        (300, 300, [200, 500]),
        (2, 50, [2, 5, 10, 20, 50]),
        (0.03, 0.4, [0.02, 0.05, 0.1, 0.2, 0.5]),
    ],
)
def test_ticks_span_the_values(low, high, ticks):
    assert decades(low, high) == pytest.approx(ticks)


def test_where_numbers_lie():
    panel = Panel(100, 10, 400, 200, 1, 100, 1, 256, log=True)
    assert [panel.x(1), panel.x(16), panel.x(256)] == [100, 300, 500]
    assert [panel.y(1), panel.y(10), panel.y(100)] == [210, 110, 10]
    assert Panel(0, 0, 1, 100, 0, 2, 4, 4).x(4) == 0
    assert Panel(0, 0, 1, 100, 0, 2, 1, 2).y(0.5) == 75


def test_words_are_escaped():
    page = Svg(10, 10, "a < b")
    page.text(1, 2, "x & y", bold=True, turned=True)
    tree = ElementTree.fromstring(str(page))
    assert tree.find(f"{SVG}title").text == "a < b"
    assert tree.find(f"{SVG}text").text == "x & y"


def run(rows, plain, fleet):
    arms = [{"arm": "none", "tokens_per_s": plain, "speedup": 1.0},
            {"arm": "fleet", "tokens_per_s": fleet, "speedup": fleet / plain}]  # fmt: skip
    return {"name": f"demo 400x{rows}", "model": "SmolLM2", "context": 400, "rows": rows, "law": "T=0.7",
            "how": "engine", "arms": arms}  # fmt: skip


def test_growing_batches():
    tree = ElementTree.fromstring(figure([run(4, 40, 60), run(1, 20, 19), run(2, 30, 30)], "a CPU"))
    words = [text.text for text in tree.iter(f"{SVG}text")]
    assert {"tokens per second", "times plain", "requests at once", "never below 0.98", "1", "2", "4"} <= set(words)
    lines = {line.get("class"): line.get("points") for line in tree.iter(f"{SVG}polyline") if line.get("class") in (
        "blue-line", "orange-line")}  # fmt: skip
    places = [tuple(map(float, point.split(","))) for point in lines["blue-line"].split()]
    assert len(places) == 3
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    # Of ratios 0.95, 1 and 1.5 the last is the highest on the page.
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)

"""Figures of straying and speed from the committed results of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tradeoff_figure import cells_of, main, measured

from glimpse.bench.results import read_result

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
FILES = [RESULTS / f"h200-{name}.json" for name in ("tradeoff", "tradeoff_batches", "tradeoff_relaxed")]


def test_measured_speeds_come_before_reckoned_ones():
    straying, *others = (read_result(path) for path in FILES)
    found = {cell["mode"]: cell for cell in cells_of(straying, measured(others))["demo 8000x16"]}
    assert len(found) == 13
    assert found["typical:0.1"]["speedup"] == pytest.approx(17_689 / 10_618, rel=2e-3)
    assert found["slowfast"]["speedup"] < 1 < found["slowfast"]["reckoned_speed"]
    assert found["cactus:1"]["speedup"] == found["cactus:1"]["reckoned_speed"]


def test_a_figure_a_cell(tmp_path):
    main([*map(str, FILES), "--out", str(tmp_path)])
    names = ["h200-tradeoff-demo-24000x16.svg", "h200-tradeoff-demo-8000x16.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names:
        assert (tmp_path / name).read_text() == (RESULTS / name).read_text(), "draw them anew"

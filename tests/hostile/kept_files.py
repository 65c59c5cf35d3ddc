"""Hostile JSON that Glimpse itself keeps: calibrations and bench results."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

from tests.hostile.mutations import broken_json, nested
from tests.tiny import tiny_config

from glimpse.bench.results import read_result
from glimpse.model.hf_config import spec_from_config
from glimpse.pacing.calibration import Calibration, Point, read, shape_of
from glimpse.pacing.costs import FEATURES

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@cache
def _result() -> str:
    """The smallest of the published results."""
    return min(RESULTS.glob("*.json"), key=lambda path: path.stat().st_size).read_text(encoding="utf-8")


CALIBRATION = json.dumps(
    Calibration(
        device="a",
        model="m",
        dtype="float32",
        shape=shape_of(spec_from_config(tiny_config())),
        coefficients=tuple(0.001 for _ in FEATURES),
        points=(Point(tuple(1.0 for _ in FEATURES[1:]), 0.1, 0.1),),
        bandwidth=1e9,
        rate=1e9,
        memory=1,
        measured="now",
        torch="2",
        spread=0.1,
    ).as_json()
)


def bench_results(draw: random.Random, folder: Path) -> None:
    """A changed result file."""
    path = folder / "r.json"
    path.write_bytes(broken_json(_result(), draw) if draw.random() < 0.95 else b"[" * 100_000)
    read_result(path)


def calibrations(draw: random.Random, folder: Path) -> None:
    """A changed calibration."""
    path = folder / "c.json"
    path.write_bytes(broken_json(CALIBRATION, draw) if draw.random() < 0.95 else json.dumps(nested(900)).encode())
    read(path)

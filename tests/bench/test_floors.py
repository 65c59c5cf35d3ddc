"""Floors and ceilings, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glimpse.bench.floors import Floors, Machine, measure_machine
from glimpse.planning.models import DEMO_SPEC

MACHINE = Machine(bandwidth=4e12, rate=8e14)
DEMO = Floors(DEMO_SPEC, 8000, 64, MACHINE)


def test_a_plain_step_reads_weights_and_cache_once():
    # 134.5M weights; 30 layers x 3 heads x 64 x 2 (K, V) x 2 bytes = 23,040 bytes a position.
    cache = 23040 * 8000 * 64
    assert DEMO.step(1) == pytest.approx((134.5e6 * 2 + cache) / 4e12, rel=1e-3)
    assert DEMO.draft(512) == pytest.approx((134.5e6 * 2 + 23040 * 516 * 64) / 4e12, rel=1e-3)
    assert DEMO.draft(10**6) == DEMO.step(1, 8004)


def test_many_tokens_are_bound_by_the_product_rate():
    wide = Floors(DEMO_SPEC, 1, 4096, MACHINE)
    assert wide.step(8, 0) == pytest.approx(2 * 134.5e6 * 4096 * 8 / 8e14, rel=1e-3)


def test_float32_moves_twice_the_bytes():
    assert replace(DEMO, dtype=torch.float32).step(1) == pytest.approx(2 * DEMO.step(1))


def test_selection_reads_fresh_and_running_scores_and_writes_running_ones():
    assert DEMO.select() == pytest.approx(3 * 4 * 30 * 3 * 8000 * 64 / 4e12)


def test_the_ceiling_is_the_best_draft_length():
    rate, length = DEMO.ceiling([1.0], 512)
    assert length == 24
    assert rate == pytest.approx(64 * 25 / (24 * DEMO.draft(512) + DEMO.step(25)))
    assert DEMO.ceiling([0.0], 512) == (64 / DEMO.step(1), 0)
    assert DEMO.ceiling([], 512) == (64 / DEMO.step(1), 0)
    falling, length = DEMO.ceiling([0.9, 0.0], 512)
    assert length == 1
    assert falling == pytest.approx(64 * 1.9 / (DEMO.draft(512) + DEMO.step(2)))


def test_a_machine_is_measured_on_a_cpu(monkeypatch):
    from glimpse.planning import roofs

    monkeypatch.setattr(roofs, "_COPIED", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "_SIDE", {"cpu": 64})
    found = measure_machine("cpu", torch.float32)
    assert found.bandwidth > 1e8
    assert found.rate > 1e7
    assert found.seconds(found.bandwidth, 2 * found.rate) == 2

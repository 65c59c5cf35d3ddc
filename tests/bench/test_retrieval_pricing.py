"""Batches that follow known answers, and the suite that compares priced trees with fixed budgets over them."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import prove
from benchmarks.retrieval_arms import Answer
from benchmarks.retrieval_batch import Batch, Policy
from benchmarks.retrieval_pricing import policies, suite

from glimpse.bench.results import read_result
from glimpse.bench.runner import main

STEP = (1.0, 0, 0, 0, 0, 0, 0, 0, 0)
"""A step takes a second, whatever it carries."""
TOKEN = (0.0, 1.0, 0, 0, 0, 0, 0, 0, 0)
"""A second a token that is fed."""


def write(folder, name, period):
    ids = np.arange(90) % period + 3
    successors = (np.roll(ids, -1)[:, None] + np.arange(8) * 50).astype(np.int64)
    chances = np.tile(np.array([0.9, *[0.01] * 7], np.float32), (len(ids), 1))
    facts = {"name": name, "mode": "greedy", "prompt": ids[:40], "output": ids[40:]}
    np.savez(folder / f"{name}.npz", successors=successors, chances=chances, **facts)
    return Answer.read(folder / f"{name}.npz")


@pytest.fixture
def answers(tmp_path):
    return [write(tmp_path, f"set-{place}", period) for place, period in enumerate((20, 9, 15))]


@pytest.mark.parametrize("rows", [1, 4])
def test_plain_rows_write_a_token_a_step(answers, rows):
    spent = Batch(answers, rows, policies([8])["none"], STEP).run(150)
    assert spent.tokens == spent.rounds == rows * spent.seconds
    assert 150 <= spent.tokens < 150 + rows
    assert spent.nodes == 0


def test_answers_that_repeat_are_drafted_and_rows_take_the_next_one(answers):
    spent = Batch(answers, 2, Policy("racer", "fixed", 8), STEP).run(160)
    assert spent.tokens > 3 * spent.rounds
    assert spent.nodes <= 8 * spent.rounds


def test_priced_trees_are_empty_where_every_token_costs_as_much_as_a_step(answers):
    assert Batch(answers, 2, policies([8])["priced"], TOKEN).run(100).nodes == 0
    assert Batch(answers, 2, policies([8])["priced"], STEP).run(100).nodes > 100


def test_the_suite_writes_a_result(answers, tmp_path):
    given = ["--quick", "--out", str(tmp_path / "out"), "--threads", "1"]
    assert main(suite(tmp_path), prove.ROOT, given) == 0
    result = read_result(tmp_path / "out" / "cpu-retrieval_pricing.json")
    assert [row[0] for row in result.tables[0].rows] == [
        "h200, 8B cost x1", "h200, 8B cost x2", "h200, 135M x1", "h200, 135M x2", "cpu, 135M x1",
    ]  # fmt: skip
    assert len(result.targets) == 10
    assert main(suite(tmp_path / "out"), prove.ROOT, given) == 1, "no answers there"

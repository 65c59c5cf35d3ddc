"""Following answers without an engine, and the suite over them."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import prove
from benchmarks.retrieval_acceptance import SETS, suite
from benchmarks.retrieval_arms import ARMS, DEPTH, Answer, follow

from glimpse.bench.results import read_result
from glimpse.bench.runner import main


def answer(folder, name="gsm8k-0000", mode="greedy", period=20):
    """A text that goes round in `period` tokens; the table is told the right successor and seven wrong ones."""
    ids = np.arange(100) % period + 3
    successors = (np.roll(ids, -1)[:, None] + np.arange(8) * 50).astype(np.int64)
    chances = np.tile(np.array([0.9, *[0.01] * 7], np.float32), (len(ids), 1))
    path = folder / f"{name}-{mode}.npz"
    facts = {"name": name.rpartition("-")[0], "mode": mode, "prompt": ids[:40], "output": ids[40:]}
    np.savez(path, successors=successors, chances=chances, **facts)
    return Answer.read(path)


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_follows_a_text_that_repeats_itself(arm, tmp_path):
    rounds, tokens, nodes = follow(arm, answer(tmp_path), 64)
    assert tokens == 60
    assert 2 <= rounds < 30
    assert nodes >= 60 - rounds


def test_a_source_that_knows_nothing_yields_a_token_a_round(tmp_path):
    """Nothing in 80 tokens comes twice, and the table never saw the tokens that come."""
    for arm in ("lookup", "suffix", "automaton", "table"):
        assert follow(arm, answer(tmp_path, period=100), 16)[:2] == [60, 60]


def test_half_of_the_budget_is_left_to_the_table(tmp_path):
    whole, half = follow("racer", answer(tmp_path), 8), follow("racer, half-half", answer(tmp_path), 8)
    assert whole[0] <= half[0]
    assert DEPTH > 8


def test_the_suite_writes_a_result(tmp_path):
    for name in SETS:
        for mode in ("greedy", "sampled"):
            for place in range(2):
                answer(tmp_path, f"{name}-{place:04}", mode)
    out = tmp_path / "out"
    given = suite(tmp_path)
    assert main(given, prove.ROOT, ["--quick", "--out", str(out), "--threads", "1"]) == 0
    result = read_result(out / "cpu-retrieval_acceptance.json")
    assert len(result.tables) == 6
    assert len(result.targets) == 16
    assert main(suite(out), prove.ROOT, ["--quick", "--out", str(out)]) == 1, "no answers there"

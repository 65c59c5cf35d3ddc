"""The script for a GPU runs through on a CPU at toy size."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks import gpu_retrieval
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result


def test_it_runs_and_judges_what_is_priced(tmp_path, monkeypatch):
    model = write_tiny_checkpoint(tmp_path / "model", max_position_embeddings=256)
    np.savez(tmp_path / "ids.npz", **{f"gsm8k-{place}": np.arange(20 + place) % 9 + 5 for place in range(2)})
    given = ["--model", str(model), "--ids", str(tmp_path / "ids.npz"), "--out", str(tmp_path), "--shapes", "demo",
             "--rows", "1,2", "--laws", "greedy", "--tokens", "8", "--commit", "0" * 40,
             "--arms", "none;auto;racer;racer, 8 nodes"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["gpu_retrieval", *given])
    gpu_retrieval.main()
    result = read_result(tmp_path / "cpu-retrieval-demo.json")
    assert [(run["cell"], run["arm"]) for run in result.runs] == [
        (f"demo x{rows}, greedy", arm) for rows in (1, 2) for arm in ("none", "auto", "racer", "racer, 8 nodes")
    ]
    assert all(run["same"] == 1 for run in result.runs)
    assert [target.what for target in result.targets] == [
        f"demo x{rows}, greedy, {arm}: speed over plain" for rows in (1, 2) for arm in ("auto", "racer")
    ]

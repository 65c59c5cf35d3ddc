"""The GPU's script of lossy modes, tried on a CPU: it stops, goes on, and reckons speeds by hand-made steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import gpu_tradeoff
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result, write_result

STEPS = {"plain": {"median": 10.0}, "draft": {"median": 2.0}, "verify": {"4": {"median": 12.0}, "8": {"median": 16.0}},
         "budget": 500}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "read", "speed"),
    [
        ({"trusted": 0.0, "drafted": 0.0, "accepted": 0.0}, 500, 1.0),
        ({"trusted": 0.0, "drafted": 4.0, "accepted": 3.0}, 500, 4 * 10 / (4 * 2 + 12)),
        ({"trusted": 0.0, "drafted": 6.0, "accepted": 3.0}, 500, 4 * 10 / (6 * 2 + 14)),
        ({"trusted": 0.0, "drafted": 10.0, "accepted": 9.0}, 500, 10 * 10 / (10 * 2 + 18)),
        ({"trusted": 0.9, "drafted": 0.0, "accepted": 0.0}, 500, 10 / (0.9 * 2 + 1)),
        ({"trusted": 0.9, "drafted": 0.0, "accepted": 0.0}, 1250, 10 / (0.9 * 6 + 1)),
    ],
)
def test_speeds_by_hand(found, read, speed):
    assert gpu_tradeoff.reckoned(found, STEPS, 2000, read) == pytest.approx(speed)


def test_runs_stops_and_goes_on(tmp_path, capsys):
    folder = write_tiny_checkpoint(tmp_path / "model", max_position_embeddings=1024)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "ids.npz", text=rng.integers(3, 250, 30_000))
    argv = ["--model", str(folder), "--ids", str(tmp_path / "ids.npz"), "--cells", "64x2", "--device", "cpu",
            "--modes", "plain,sparse@4,slowfast,cactus:1@4", "--tokens", "16", "--texts", "1", "--fast-budget", "300",
            "--out", str(tmp_path / "out")]  # fmt: skip
    assert gpu_tradeoff.main([*argv, "--seconds", "0"]) == 3
    assert "no time left for 4 of them" in capsys.readouterr().out
    assert gpu_tradeoff.main(argv) == 0
    result = read_result(tmp_path / "out" / "cpu-tradeoff.json")
    assert [cell["mode"] for cell in result.runs] == ["plain", "sparse@4", "slowfast", "cactus:1@4"]
    assert result.runs[2]["trusted"] > 0.3
    assert not any("reckoned_speed" in cell for cell in result.runs), "nobody gave the steps"
    own = {"name": result.runs[0]["cell"].removesuffix(" plain"), "context": 2000, "budget": 500, "steps": STEPS}
    write_result(replace(result, suite="decode", runs=[own]), tmp_path)
    given = ["--again", str(tmp_path / "out" / "cpu-tradeoff.json"), "--steps", str(tmp_path / "cpu-decode.json")]
    assert gpu_tradeoff.main([*argv, *given]) == 0
    found = read_result(tmp_path / "out" / "cpu-tradeoff.json")
    assert found.commit == result.commit
    assert found.runs[0]["reckoned_speed"] == 1.0
    assert found.runs[1]["reckoned_speed"] == pytest.approx(
        gpu_tradeoff.reckoned(result.runs[1], STEPS, 2000, result.runs[1]["budget"])
    )
    assert [table.title for table in found.tables][-1] == "Speed reckoned from measured steps"


def test_whole_batches_are_timed_beside_the_reckoned_speed(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "model", max_position_embeddings=1024)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "ids.npz", text=rng.integers(3, 250, 30_000))
    argv = ["--model", str(folder), "--ids", str(tmp_path / "ids.npz"), "--cells", "64x1", "--modes", "plain",
            "--speed-cells", "300x2", "--speed-modes", "plain,sparse@4,slowfast", "--speed-tokens", "8", "--turns", "1",
            "--budget", "64", "--fast-budget", "280", "--tokens", "8", "--texts", "1", "--device", "cpu",
            "--out", str(tmp_path / "out")]  # fmt: skip
    assert gpu_tradeoff.main(argv) == 0
    result = read_result(tmp_path / "out" / "cpu-tradeoff.json")
    (found,) = [run["measured"] for run in result.runs if "measured" in run]
    assert [own["mode"] for own in found] == ["plain", "sparse@4", "slowfast", "plain"]
    assert all(speed > 0 for own in found for speed in own["speeds"])
    assert [own["budget"] for own in found[1:3]] == [64, 280]
    assert found[1]["accepted"] > 0
    assert found[2]["trusted"] > 0.3
    (shown,) = [table for table in result.tables if table.title == "Tokens a second, measured"]
    assert shown.rows[0][3] == "1.00"
    assert shown.rows[2][7] == "0.00", "nothing is a graph on a CPU"
    assert shown.rows[0][6] == "1.00", "a plain step writes a token of every row"

"""The server's benchmark for a GPU, tried on a CPU: it runs through, and goes on where it stopped."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from benchmarks import gpu_serve

from glimpse.bench.results import read_result


def test_runs_through_and_goes_on(tiny_folder, tmp_path, capsys):
    argv = ["--model", str(tiny_folder), "--cells", "{model}:64x4=8,16", "--drafters", "none,lookup", "--tokens", "4",
            "--load-seconds", "0.4", "--device", "cpu", "--commit", "ab" * 20, "--out", str(tmp_path)]  # fmt: skip
    gpu_serve.WARM = 0.2
    gpu_serve.main([*argv, "--seconds", "-1"])
    assert capsys.readouterr().out == "", "no time, no load"
    gpu_serve.main(argv)
    *lines, path = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["failed"] for line in lines] == [0] * 4
    result = read_result(tmp_path / path.rpartition("/")[2])
    assert len(result.runs) == 4
    assert [run["captured"] for run in result.runs] == [0] * 4, "there are no graphs on a CPU"
    assert {target.what for target in result.targets} >= {"lookup at 8 requests/s: tokens/s over plain"}
    gpu_serve.main(argv)
    assert capsys.readouterr().out.splitlines() == [path], "all of it was in the journal"

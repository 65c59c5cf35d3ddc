"""The recipes of block adapters, tried on a CPU at toy size: it runs through, stops by itself and goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import gpu_block
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result

TOY = {"size": 3, "layers": 1, "rank": 2, "inner": 4, "steps": 3, "length": 24, "sequences": 1, "branches": 2}


@pytest.fixture
def asked(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=2048)
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "books.npz", text=draw.integers(3, 300, 400))
    np.savez(tmp_path / "questions.npz", **{f"q{place}": draw.integers(3, 300, 12) for place in range(5)})
    files = {"model": folder, "ids": tmp_path / "books.npz", "questions": tmp_path / "questions.npz"}
    folders = {"work": tmp_path / "work", "out": tmp_path / "out"}
    sizes = {"device": "cpu", "commit": "ab" * 20, "tokens": 20, "answers": 1, "rows": 4, "set": json.dumps(TOY)}
    return [word for name, value in (files | folders | sizes).items() for word in (f"--{name}", str(value))]


def test_recipes_are_trained_and_judged(asked, tmp_path):
    gpu_block.main([*asked, "--variants", "base,text only"])
    result = read_result(tmp_path / "out" / "cpu-block.json")
    assert [run["cell"] for run in result.runs] == ["lookup", "racer", "base", "text only"]
    for run in result.runs[2:]:
        assert run["point"]["step"] == 3
        assert run["greedy"]["rounds"] > 0
        assert run["reliability"]
    assert all(target.ok for target in result.targets)


def test_no_training_goes_on_after_the_time_and_another_run_ends_it(asked, tmp_path):
    gpu_block.main([*asked, "--variants", "base", "--seconds", "0"])
    assert len(read_result(tmp_path / "out" / "cpu-block.json").runs) == 2
    gpu_block.main([*asked, "--variants", "base", "--steps", "9"])
    assert len(read_result(tmp_path / "out" / "cpu-block.json").runs) == 3


def test_an_unknown_recipe_is_refused(asked, capsys):
    with pytest.raises(SystemExit):
        gpu_block.main([*asked, "--variants", "best"])
    assert "unknown variant 'best'; known: base" in capsys.readouterr().err

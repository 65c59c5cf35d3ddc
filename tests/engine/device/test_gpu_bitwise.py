"""What the bitwise mode costs, the GPU's script at toy size: both modes over one cell; it stops, goes on, reckons."""

from __future__ import annotations

import pytest
from benchmarks import gpu_bitwise

from engine.device.engines import tiny_folder
from glimpse.bench.decode.steps import timing
from glimpse.bench.results import read_result
from tiny import write_tiny_checkpoint

SIZES = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 16, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 512, "num_hidden_layers": 1}  # fmt: skip


@pytest.fixture
def asked(tmp_path):
    """The command line without model and cells."""
    return ["--device", "cpu", "--out", str(tmp_path / "out"), "--commit", "ab" * 20, "--budget", "40",
            "--turns", "1", "--repeats", "1"]  # fmt: skip


def test_both_modes_over_one_cell(asked, tmp_path, monkeypatch):
    folder, modes = write_tiny_checkpoint(tmp_path / "tiny", **SIZES), []

    def once(cell, floors, drafts, budget, repeats):
        """What `measure_steps` gives, of one run of each step: the interpreter takes seconds for more."""
        assert (drafts, budget, repeats) == ([7], 40, 1)
        modes.append(cell.batch.rounds.settings.bitwise)
        plain, draft, verify = (
            timing(cell.clock.each(lambda: None, action, 1), floors.step(1))
            for action in (cell.plain, lambda: cell.draft(1), lambda: cell.verify(1))
        )
        return {"plain": plain, "draft": draft, "verify": {"7": verify}, "verify_8": {"without": verify}}

    monkeypatch.setattr("glimpse.model.linear.can_pack", lambda dtype: False)  # weights as a GPU has them
    monkeypatch.setattr(gpu_bitwise, "measure_steps", once)
    monkeypatch.setattr(gpu_bitwise, "TEMPERATURE", 0.0)
    assert gpu_bitwise.main([*asked, "--model", str(folder), "--cells", "64x1"]) == 0
    (run,) = read_result(tmp_path / "out" / "cpu-bitwise.json").runs
    assert modes == [False, True]
    assert set(run["steps"]) == {"plain", "verify 8", "verify 8, no importance", "draft"}
    for own in run["steps"].values():
        assert own["ratio"] == own["bitwise"]["median"] / own["fast"]["median"] == own["turns"][0]
    assert run["prefill"]["tokens"] == 64
    assert {name: len(own) for name, own in run["prefill"]["seconds"].items()} == {"fast": 1, "bitwise": 1}


def made_cell(rows, ratio):
    """A measured cell."""
    fast, bitwise = timing([1e-3, 3e-3, 2e-3], 1e-3), timing([2e-3 * ratio], 1e-3)
    step = gpu_bitwise.compared({"fast": [fast], "bitwise": [bitwise]})
    prefill = {"tokens": 8000, "ratio": ratio, "tokens_per_s": {"fast": 10.0, "bitwise": 10.0 / ratio}}
    return {"name": f"demo 8000x{rows}", "rows": rows, "steps": dict.fromkeys(gpu_bitwise.TIMED, step),
            "prefill": prefill}  # fmt: skip


def test_aims_are_for_sixteen_rows_and_more():
    found = gpu_bitwise.targets([made_cell(8, 1.2), made_cell(16, 1.2), made_cell(64, 1.6)])
    assert [(target.what, target.ok) for target in found] == [
        ("demo 8000x16: plain, bitwise / fast", False),
        ("demo 8000x16: verify 8, bitwise / fast", True),
        ("demo 8000x16: verify 8, no importance, bitwise / fast", True),
        ("demo 8000x16: prefill, bitwise / fast", True),
        *((f"demo 8000x64: {name}, bitwise / fast", False) for name in gpu_bitwise.AIMS),
    ]
    steps, prompts = gpu_bitwise.tables([made_cell(8, 1.2)])
    assert steps.rows[0] == ["demo 8000x8", "plain", "2.000", "2.400", "1.20", "2.00", "2.40"]
    assert list(prompts.rows[0]) == ["demo 8000x8", "8,000", "10", "8", "1.20"]


def test_stops_and_goes_on(asked, tmp_path, monkeypatch, capsys):
    measured = []

    def cell(self, shape, say):
        measured.append(shape.rows)
        return made_cell(shape.rows, 1.1)

    monkeypatch.setattr(gpu_bitwise.BitwiseMeasuring, "cell", cell)
    cells = ["--cells", "8000x16,8000x8,8000x1"]
    assert gpu_bitwise.main([*asked, *cells, "--seconds", "0"]) == 3
    assert "no time left for demo 8000x8, demo 8000x1" in capsys.readouterr().out
    assert gpu_bitwise.main([*asked, *cells]) == 0
    assert measured == [16, 8, 1]
    assert [run["rows"] for run in read_result(tmp_path / "out" / "cpu-bitwise.json").runs] == [16, 8, 1]


def test_what_it_does_not_do_is_said(asked, tmp_path, capsys):
    assert gpu_bitwise.main([*asked, "--cells", "8000x16:4"]) == 2
    assert "'8000x16:4' names draft lengths, but a verification here reads 8 tokens" in capsys.readouterr().err
    assert gpu_bitwise.main([*asked[:-1], "0"]) == 2
    assert "--turns and --repeats must be at least 1" in capsys.readouterr().err
    odd = tiny_folder(tmp_path, vocab_size=300)
    assert gpu_bitwise.main([*asked, "--model", str(odd), "--cells", "64x1"]) == 3
    assert "failed: exact 'bitwise' computes plain linear layers" in capsys.readouterr().out

"""LibraSpec's benches at toy size: what the replay counts, and the GPU script on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import batch_turns, gpu_libra, libra, libra_record
from benchmarks.libra_arms import CHAINS
from benchmarks.libra_replay import Replay, Tally, oracle, sequences
from benchmarks.libra_surfaces import RowSurface
from benchmarks.libra_traces import Start
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result
from glimpse.bench.runner import main

ROOT = Path(__file__).resolve().parents[2]
SURFACE = RowSurface("toy", (0.1, 0.02, 0.05, 0.001, 0.0, 0.0, 0.01, 0.0, 0.0), 900, 50)
"""A plain step takes 1.021 s, a draft step 0.15."""


def start(right: int) -> Start:
    return Start((0.5,) * 16, (1.0,) * 16, (1.0,) * 16, right)


def test_a_recorded_draft_is_read_back():
    made = Start((0.125, 1.0), (0.5, 2.25), (0.75, 30.0), 1)
    assert Start.of_json(made.as_json()) == made


def test_a_fixed_length_is_counted_by_hand():
    """Rounds of 4 drafts: 2 of 4 right, then (3 tokens on) 4 of 4, then the end."""
    places = [(0, start(right)) for right in (2, 9, 9, 5, 0, 0, 0, 0)]
    tally = Tally()
    Replay(CHAINS["fixed 4"], SURFACE, 16, None).run(places, tally, [4] * len(places))
    assert (tally.rounds, tally.drafted, tally.verified, tally.distance) == (2, 8, 8, 0)
    assert tally.tokens[0] == 3 + 5
    assert tally.seconds[0] == pytest.approx(2 * (4 * 0.15 + 0.01 + SURFACE.full(4)))


def test_nobody_beats_the_oracle():
    draw = np.random.default_rng(2)
    texts = [[start(int(draw.integers(0, 12))) for _ in range(40)] for _ in range(3)]
    (places,) = sequences(texts, 1)
    best, lengths = oracle(places, SURFACE, None)
    for name in ("fixed 0", "fixed 3", "entropy", "marginal", "libraspec"):
        tally = Tally()
        Replay(CHAINS[name], SURFACE, 16, None).run(places, tally, lengths)
        assert tally.speed() <= best * (1 + 1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("libra")


@pytest.fixture(scope="module")
def model(folder):
    return write_tiny_checkpoint(folder / "model", max_position_embeddings=2048)


@pytest.mark.parametrize("suite", [libra.SUITE, libra_record.SUITE], ids=lambda suite: suite.name)
def test_a_suite_runs_through(suite, model, folder):
    (folder / "text").mkdir(exist_ok=True)
    (folder / "text" / "book.txt").write_text(" ".join(f"word{n % 37} and {n}" for n in range(3000)), encoding="utf-8")
    given = ["--quick", "-m", str(model), "--text", str(folder / "text"), "--threads", "1", "--out", str(folder)]
    assert main(suite, ROOT, given) == 0
    assert read_result(folder / f"cpu-{suite.name}.json").quick


def test_the_gpu_script_stops_goes_on_and_writes_its_result(model, folder, monkeypatch, capsys):
    monkeypatch.setattr(gpu_libra, "opened", lambda name, options, device: checkpoint_of(options.model))
    np.savez(folder / "ids.npz", book=np.random.default_rng(0).integers(3, 90, 400))
    given = [f"--model={model}", f"--ids={folder / 'ids.npz'}", "--cells=demo:40x2", "--laws=T=0.7", "--tokens=12",
             "--turns=1", f"--out={folder}", "--commit=" + "0" * 40]  # fmt: skip
    gpu_libra.main([*given, "--arms=none;fixed 4"])
    gpu_libra.main([*given, "--arms=none;fixed 4;entropy;marginal;libraspec;marginal, eager"])
    result = read_result(folder / "cpu-libra_gpu.json")
    assert [run["arm"] for run in result.runs] == [
        "none",
        "fixed 4",
        "entropy",
        "marginal",
        "libraspec",
        gpu_libra.EAGER,
    ]
    assert [target.what for target in result.targets] == [
        f"demo 40x2, T=0.7: marginal over {rival}" for rival in ("the best fixed length", "entropy")
    ]
    assert len(capsys.readouterr().out.splitlines()) == 6, "an arm that is known is not measured again"
    gpu_libra.main([*given, "--arms=fixed 8", "--seconds=0"])
    assert not capsys.readouterr().out
    assert json.loads((folder / ".libra_gpu.partial.jsonl").read_text().splitlines()[1])["arm"] == "none"


def test_a_window_of_nothing_is_named_and_left_out(model, tmp_path, monkeypatch, capsys):
    """Rows that end with their first token leave no time in which all decode."""
    monkeypatch.setattr(gpu_libra, "opened", lambda name, options, device: checkpoint_of(options.model))
    monkeypatch.setattr(batch_turns, "BEGUN", 0)
    np.savez(tmp_path / "ids.npz", book=np.random.default_rng(0).integers(3, 90, 400))
    gpu_libra.main([f"--model={model}", f"--ids={tmp_path / 'ids.npz'}", "--cells=demo:40x2", "--laws=T=0.7",
                    "--tokens=1", "--turns=1", f"--out={tmp_path}", "--arms=none"])  # fmt: skip
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("demo 40x2, T=0.7, none: no time in which all 2 rows decoded")
    assert not (tmp_path / "cpu-libra_gpu.json").exists()


def checkpoint_of(folder: str):
    from glimpse.model import load_checkpoint

    return load_checkpoint(Path(folder))

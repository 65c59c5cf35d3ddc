"""`glimpse plan` and `glimpse calibrate` as they are typed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.tiny import tiny_config, write_json, write_tiny_checkpoint

from glimpse.cli import app
from glimpse.pacing.calibration import _SIZES, Calibration, path_of, read
from glimpse.pacing.costs import FEATURES
from glimpse.planning import roofs


def _run(capsys, *argv):
    code = app.run(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_plan_needs_neither_weights_nor_a_gpu(capsys, tmp_path):
    write_json(tmp_path / "config.json", tiny_config("qwen2", hidden_size=4096, intermediate_size=14336))
    code, out, err = _run(capsys, "plan", "-m", str(tmp_path), "--context", "400", "--device", "a100", "--json")
    value = json.loads(out)
    assert (code, err) == (0, "")
    assert (value["context"], value["batch"], value["dtype"]) == (400, 1, "bfloat16")
    assert value["r"] == value["cache_bytes"] / value["weight_bytes"]
    assert value["cache_bytes"] == 400 * 2 * 2 * 2 * 8 * 2
    assert [entry["acceptance"] for entry in value["sparse"]] == ["0.8", "0.9", "0.94:0.86"]
    assert value["advice"]["drafter"] == "lookup"
    assert value["measured"] is False


def test_plan_in_words(capsys):
    argv = "plan --context 16384 --batch 64 --device h200 --acceptance 0.95 --acceptance 0.9:0.8 --budget 0.07"
    code, out, err = _run(capsys, *argv.split())
    assert (code, err) == (0, "")
    assert "demo (135M weights, bfloat16), 64 x 16,384 tokens on h200" in out
    assert "the checkpoint itself allows 8,192 tokens of context" in out
    assert "use: --drafter sparse" in out
    assert "0.9:0.8" in out
    assert "7.0%" in out
    assert "a plain step, by the device table" in out


def test_a_question_mark_lists_the_devices_that_are_known(capsys):
    code, out, err = _run(capsys, *["plan", "--device", "?"])
    assert (code, err) == (0, "")
    assert out.startswith("h200 ")
    assert "rtx-4090" in out
    code, out, _ = _run(capsys, *["plan", "--device", "?", "--json"])
    assert (code, "cpu-2-cores" in json.loads(out)["devices"]) == (0, True)


def test_plan_says_where_its_figures_are_floors(capsys):
    code, out, err = _run(capsys, *["plan", "--context", "4096", "--device", "cpu-2-cores"])
    assert (code, err) == (0, "")
    assert "a plain step at least: its floor" in " ".join(out.split())
    assert "not counted without a calibration" in " ".join(out.split())


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("plan", "--device is missing: one of h200, "),
        ("plan --device abacus", "unknown device 'abacus'; known: h200, "),
        ("plan --device h200 --batch 0", "batch must be at least 1, not 0"),
        ("plan --device h200 --batch 2000000000000", "batch must be at most 1,099,511,627,776, not 2000000000000"),
        ("plan --device h200 --context 1" + "0" * 400, "context must be at most 1,099,511,627,776, not 1000"),
        ("plan --device ~nobodys_home", "unknown device '~nobodys_home'; known: h200, "),
        ("plan --device h200 -m ~nobodys_home", "model '~nobodys_home' cannot be looked up: Could not determine home"),
        ("plan --device " + "x" * 300, "unknown device 'xxx"),
        ("plan --device h200 --context many", "'many' is not a whole number"),
        ("plan --device h200 --acceptance 1.5", "acceptance 1.5 is not a probability"),
        ("plan --device h200 --budget 2", "budget 2.0 is not a share of the context"),
        ("plan --device h200 --dtype int3", "unknown dtype 'int3'; known: auto, float32, bfloat16, float16"),
        ("plan --device h200 -m nowhere", "no such model: nowhere"),
        ("calibrate --seconds 0", "--seconds must be more than 0"),
        ("calibrate --seconds nan", "--seconds must be more than 0"),
        ("calibrate --max-batch 0", "max_batch_size must be a whole number >= 1, not 0"),
        ("calibrate --max-batch 8 --device cpu", "--max-batch 8 is for a GPU: on a CPU one request is measured"),
        ("calibrate --device cuda:x", "unknown device 'cuda:x'; known: auto, cpu, cuda, cuda:0"),
        ("calibrate --device abacus", "unknown device 'abacus'"),
        ("calibrate --dtype int3", "unknown dtype 'int3'"),
        ("calibrate -m nowhere", "no such model: nowhere"),
    ],
)
def test_wrong_arguments(capsys, argv, words):
    code, out, err = _run(capsys, *argv.split())
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_calibrate_then_plan_with_the_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(roofs, "_COPIED", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "_SIDE", {"cpu": 64})
    monkeypatch.setattr("glimpse.pacing.calibration.UNEVEN", 99)  # whatever else this machine does
    model = str(write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=256))
    code, out, err = _run(capsys, "calibrate", "-m", model, "--seconds", "1", "--json", "-q")
    value = json.loads(out)
    assert (code, err) == (0, "")
    assert value["model"] == "tiny"
    assert value["seconds_per"]["step"] > 0
    code, out, _ = _run(capsys, "calibrate", "-m", model, "--seconds", "1")
    assert code == 0
    assert "memory bandwidth" in out
    assert out.splitlines()[-1] == f"FILE: {value['file']}"
    code, out, _ = _run(capsys, "plan", "-m", model, "--device", value["file"], "--json")
    planned = json.loads(out)
    assert code == 0
    assert planned["measured"] is True
    assert planned["dtype"] == "float32"
    assert planned["begin"] >= 0
    code, out, _ = _run(capsys, "plan", "--device", value["file"])
    assert code == 0
    assert "that calibration is of tiny in float32; its bandwidth and rate are taken" in " ".join(out.split())


def test_a_busy_machine_is_measured_twice_and_a_better_calibration_stays(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "cache"))
    model = str(write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=256))
    spreads, asked = [], []
    found = _made_up()

    def measured(loaded, effort, progress):
        asked.append(effort)
        return replace(found, spread=spreads.pop(0))

    monkeypatch.setattr("glimpse.planning.measure.calibrate", measured)
    for run, (own, code, said) in enumerate(
        [
            ([0.5, 0.3], 0, ["take 50% longer than the fastest of them: the machine is busy", "take 30% longer"]),
            ([0.6, 0.02], 0, ["measuring once more"]),
            ([0.03], 0, []),
            (
                [0.4, 0.5],
                1,
                ["measuring once more", "repeats of a step take 40% longer", "spread is 3%, stays; "],
            ),
        ]
    ):
        spreads[:], asked[:] = own, []
        done, _, err = _run(capsys, "calibrate", "-m", model, "-q")
        assert (done, len(asked), spreads) == (code, len(own), []), run
        lines = err.splitlines()
        assert all(words in " ".join(lines) for words in said), err
        assert len(lines) == min(len(said), 2)
    spreads[:] = [0.4, 0.5]
    assert _run(capsys, "calibrate", "-m", model, "-q", "--fresh", "--json")[0] == 0
    assert read(path_of(found.device, found.model, found.dtype)).spread == 0.4


def _made_up():
    """A calibration of a tiny model."""
    return Calibration(
        device="a device", model="tiny", dtype="float32", shape=dict.fromkeys(_SIZES, 1),
        coefficients=(0.01,) * len(FEATURES), points=(), bandwidth=1e9, rate=1e9, memory=1, measured="today", torch="2",
    )  # fmt: skip


def test_what_does_not_fit_is_to_be_shrunk_first(capsys):
    code, out, _ = _run(capsys, *["plan", "--context", "8192", "--batch", "4096", "--device", "h200"])
    words = " ".join(out.split())
    assert code == 0
    first = "first: this does not fit: shrink --batch to at most 670 or --context to at most 1,341, and ask again"
    assert words.index(first) < words.index("use: --drafter")
    code, out, _ = _run(capsys, *["plan", "--context", "8192", "--batch", "64", "--device", "h200"])
    assert "first:" not in out
    code, out, _ = _run(capsys, *["plan", "--context", "8192", "--batch", "4096", "--device", "h200", "--json"])
    assert json.loads(out)["advice"]["before"].startswith("this does not fit: shrink --batch")


def test_calibrate_knows_that_it_cannot_keep_anything_before_it_measures(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("glimpse.cli._session.session", None)
    code, out, err = _run(capsys, "calibrate", "-m", str(tmp_path), "--device", "cpu")
    assert (code, out) == (1, "")
    assert "glimpse: cannot write calibrations into" in err

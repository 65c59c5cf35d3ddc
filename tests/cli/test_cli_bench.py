"""`glimpse bench` as it is typed."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.decode import measure
from glimpse.bench.fleet import effort
from glimpse.cli import app, bench_options
from glimpse.engine import place
from glimpse.errors import GlimpseError
from glimpse.planning import roofs


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(roofs, "_COPIED", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "_SIDE", {"cpu": 64})


def _run(capsys, *argv):
    code = app.run(["bench", *argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "tiny", max_position_embeddings=512))


def test_decode_then_report(capsys, model, tmp_path):
    argv = ["-m", model, "--context", "80", "--batch", "1,2", "--draft", "2", "--pairs", "1", "--budget", "20"]
    code, out, err = _run(capsys, "decode", *argv, "--temperature", "0", "--out", str(tmp_path), "--json")
    result = json.loads(out)
    assert code == 0
    assert [run["name"] for run in result["runs"]] == ["tiny 80x1", "tiny 80x2"]
    assert list(result["runs"][0]["laws"]) == ["greedy"]
    assert "tiny 80x2 measured in" in err
    code, out, _ = _run(capsys, "report", str(tmp_path / "cpu-decode.json"))
    assert code == 0
    assert "tiny 80x1  greedy" in out
    code, out, _ = _run(capsys, "report", str(tmp_path / "cpu-decode.json"), "--json")
    assert json.loads(out)["results"][0]["runs"] == result["runs"]


def test_steps_and_a_cell_that_fails(capsys, model, tmp_path):
    text = tmp_path / "texts"
    text.mkdir()
    (text / "short.txt").write_text("hello world " * 20)
    cells = [f"{model}:80x1:2", f"{model}:300x1:2"]
    code, out, err = _run(capsys, "steps", *cells, "--text", str(text), "--out", str(tmp_path), "-q")
    assert code == 1
    assert err == "glimpse: tiny 300x1 failed: texts has 220 tokens of text; a prompt of 300 needs a longer one\n"
    assert "tiny 80x1" in out
    assert "Decoding" not in out
    result = json.loads((tmp_path / "cpu-steps.json").read_text())
    assert "a prompt of 300 needs a longer one" in result["runs"][1]["error"]


def test_the_usual_cell_is_of_the_model_and_drafts_asked_for(capsys, model, tmp_path, monkeypatch):
    measured = []

    def noted(self, shape, say):
        measured.append(shape)
        raise GlimpseError("enough")

    monkeypatch.setattr(measure.Measuring, "cell", noted)
    assert _run(capsys, "steps", "-m", model, "--draft", "2,3", "--out", str(tmp_path))[0] == 1
    assert _run(capsys, "steps", "--out", str(tmp_path))[0] == 1
    assert [(shape.model, shape.name, shape.drafts) for shape in measured] == [
        (model, "tiny 1000x1", (2, 3)),
        ("demo", "demo 1000x1", (4,)),
    ]


def test_ctrl_c_keeps_what_is_there(capsys, model, tmp_path, monkeypatch):
    whole = measure.Measuring.cell

    def interrupted(self, shape, say):
        if shape.rows == 2:
            raise KeyboardInterrupt
        return whole(self, shape, say)

    monkeypatch.setattr(measure.Measuring, "cell", interrupted)
    code, out, err = _run(capsys, "steps", f"{model}:80x1:2", f"{model}:80x2:2", "--out", str(tmp_path))
    assert code == 130
    assert "tiny 80x1" in out
    assert "the same command goes on from there" in err
    monkeypatch.setattr(measure.Measuring, "cell", whole)
    code, out, err = _run(capsys, "steps", f"{model}:80x1:2", f"{model}:80x2:2", "--out", str(tmp_path))
    assert code == 0
    assert "tiny 80x1: kept from an earlier run" in err


@pytest.fixture
def few(monkeypatch):
    """Runs of a few tokens."""
    monkeypatch.setattr(effort, "FleetEffort", partial(effort.FleetEffort, rows=1, warm=1, tokens=3, room=24))


def test_filled_batches(capsys, model, tmp_path, few):
    cells = [f"{model}:200x2:2:half", f"{model}:80x2:2"]
    options = ["--turns", "1", "--budget", "38", "--arms", "fleet,fixed", "--out", str(tmp_path)]
    code, out, err = _run(capsys, "fleet", *cells, *options)
    assert code == 0
    assert "tiny 200x2, half easy  fixed 2" in out
    assert "Half of the rows easy text, half hard" in out
    assert "tiny 80x2: fleet over none" in out
    result = json.loads((tmp_path / "cpu-filled.json").read_text())
    assert [arm["arm"] for arm in result["runs"][1]["arms"]] == ["none", "fleet", "fixed"]
    assert result["settings"]["temperature"] == 0.7
    assert "turn 1: none" in err


def test_batches_that_grow_and_their_figure(capsys, model, tmp_path, few):
    argv = ["-m", model, "--context", "80", "--batch", "2,1", "--turns", "1", "--budget", "38", "--temperature", "0"]
    code, out, err = _run(capsys, "batches", *argv, "--out", str(tmp_path))
    assert code == 0
    path = tmp_path / "cpu-batches-tiny-80.svg"
    assert out.splitlines()[-1] == str(path)
    assert "times plain" in path.read_text()
    assert err.count("prompts read in") == 1
    result = json.loads((tmp_path / "cpu-batches.json").read_text())
    assert [run["name"] for run in result["runs"]] == ["tiny 80x2", "tiny 80x1"]
    assert [run["law"] for run in result["runs"]] == ["greedy", "greedy"]


def test_a_timeline(capsys, model, tmp_path):
    argv = [f"{model}:80x2", "--steps", "40", "--pacer", "feedback", "--budget", "38", "--out", str(tmp_path)]
    code, out, _ = _run(capsys, "timeline", *argv)
    assert code == 0
    assert "What rows did, share of steps" in out
    assert out.splitlines()[-1] == str(tmp_path / "cpu-timeline-tiny-80x2-feedback.svg")
    (run,) = json.loads((tmp_path / "cpu-timeline.json").read_text())["runs"]
    assert [lane["slot"] for lane in run["lanes"]] == [0, 1]
    assert "sparse + feedback" in (tmp_path / "cpu-timeline-tiny-80x2-feedback.svg").read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("decode 8000", "cell '8000' is not of the form"),
        ("decode demo@70b:8000x1", "unknown shape '70b'; known: llama-3.1-8b, 1.7b"),
        ("decode 8000x1 --batch 2", "name cells, or a grid by --context and --batch, not both"),
        ("decode --batch many", "--batch 'many': 'many' is not a whole number"),
        ("decode --temperature -1", "--temperature -1: give 0 (greedy) or more"),
        (
            "decode --drafter nobody",
            "drafters: unknown name 'nobody'; known: auto, block, lookup, none, racer, racer+suffix",
        ),
        ("decode -m nowhere 8000x1", "no such model: nowhere"),
        ("decode --threads 0", "threads must be a whole number >= 1"),
        ("decode --threads 100000", "threads must be a whole number >= 1"),
        ("decode --seconds 0", "--seconds 0: give more than 0 seconds"),
        ("decode --seconds nan", "--seconds nan: give more than 0 seconds"),
        ("decode --cell-seconds -1", "--cell-seconds -1: give more than 0 seconds"),
        ("decode --draft 0", "draft lengths 0: each must be from 1 to 64"),
        ("decode 1000x1:4 1000x2:3 --draft 2", "--draft '2' would not be read: every cell names its own"),
        ("decode demo:1000x1 -m elsewhere", "--model 'elsewhere' would not be read: every cell names its own"),
        ("decode 1000x17", "17 rows: on this device the engine keeps at most 16 in step"),
        ("decode 1000x99999999", "rows must be from 1 to 4,096"),
        ("decode --drafter none", "drafter 'none' drafts nothing"),
        ("decode --pairs 0", "--pairs 0: at least 1 is needed"),
        ("decode --budget 0", "--budget 0: a draft must read at least 1 position"),
        ("steps --device abacus", "unknown device 'abacus'; known: auto, cpu, cuda, cuda:0, cuda:1, ..."),
        ("steps --device cuda:x", "unknown device 'cuda:x'; known: auto, cpu, cuda, cuda:0"),
        ("steps --device cuda:3", "device 'cuda:3' cannot be used: made up; use auto or cpu"),
        ("steps --dtype int3", "unknown dtype 'int3'; known: auto, float32, bfloat16, float16"),
        ("steps --model=", "--model '' names no model"),
        ("steps -m ~nobodys_home/model", "model '~nobodys_home/model' cannot be looked up"),
        ("decode --drafter lookup --budget 100", "--budget 100 means nothing to drafter 'lookup'"),
        ("timeline --drafter lookup --budget 100", "--budget 100 means nothing to drafter 'lookup'"),
        ("timeline --drafter block", "drafter 'block' needs --adapter FILE"),
        ("timeline --adapter a", "--adapter 'a' means nothing to drafter 'sparse'"),
        ("timeline --drafter auto --pacer fleet", "pacer 'fleet' does not go with drafter 'auto'"),
        ("decode --drafter auto", "drafter 'auto' chooses its lengths itself"),
        ("steps --text nowhere", "--text 'nowhere' is no folder"),
        ("steps --ids nowhere", "--ids 'nowhere' is no file"),
        ("steps --commit abc", "commit 'abc' is not 40 hexadecimal digits"),
        ("report", "name at least one result file"),
        ("fleet 8000:half", "cell '8000' is not of the form"),
        ("fleet --arms fast", "unknown arm 'fast'; known: none, synchronised"),
        ("fleet --turns 0", "--turns 0: at least 1 is needed"),
        ("fleet --temperature -1", "--temperature -1: give 0 (greedy) or more"),
        ("fleet demo:1000x1:half -m elsewhere", "--model 'elsewhere' would not be read"),
        ("batches --cell-seconds 0", "--cell-seconds 0: give more than 0 seconds"),
        ("timeline --steps 0", "--steps 0: from 1 to 2,000 can be drawn"),
        ("timeline --pacer hasty", "unknown name 'hasty'"),
        ("timeline --drafter hasty", "unknown name 'hasty'"),
    ],
)
def test_wrong_arguments(capsys, argv, words, monkeypatch):
    monkeypatch.setattr(place, "trouble_of", lambda index: "made up")
    code, out, err = _run(capsys, *argv.split())
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.fixture
def ids(tmp_path):
    """ids(array) -> an .npz file of it."""

    def write(array):
        np.savez(tmp_path / "ids.npz", text=array)
        return str(tmp_path / "ids.npz")

    return write


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1.0, np.nan]), "holds numbers of type float64; token ids are whole numbers"),
        (np.array([True, False]), "holds numbers of type bool"),
        (np.array([3, -7, 5]), "holds ids down to -7; token ids are 0 or more"),
        (np.arange(70), "ids.npz has 70 tokens of text; a prompt of 80 needs a longer one"),
    ],
)
def test_wrong_ids_are_found_before_a_model_is_opened(capsys, ids, model, array, words, monkeypatch):
    monkeypatch.setattr(measure.Measuring, "cell", None)
    code, out, err = _run(capsys, "steps", f"{model}:80x1", f"{model}:99x1", "--ids", ids(array))
    assert (code, out) == (2, "")
    assert words in err


def test_a_corrupt_file_of_ids_is_one_line(capsys, tmp_path, model):
    path = tmp_path / "ids.npz"
    np.savez_compressed(path, text=np.arange(3000) % 7)
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(content)
    code, out, err = _run(capsys, "steps", f"{model}:80x1", "--ids", str(path))
    assert (code, out) == (2, "")
    assert "is no .npz file of token ids" in err


def test_wrong_text_is_found_before_a_model_is_opened(capsys, tmp_path, model, ids):
    code, _, err = _run(capsys, "steps", f"{model}:80x1", "--text", str(tmp_path))
    assert (code, err.split(";")[0]) == (2, f"glimpse: no text (*.txt) in {tmp_path}")
    (tmp_path / "a.txt").write_text("short")
    code, _, err = _run(capsys, "steps", f"{model}:80x1", "--text", str(tmp_path))
    assert code == 2
    assert "has fewer bytes of text than a prompt of 80 has tokens" in err
    code, _, err = _run(capsys, "steps", f"{model}:80x1", "--text", str(tmp_path), "--ids", ids(np.arange(90)))
    assert (code, err) == (2, "glimpse: --ids are read instead of text: leave out --text, or --ids\n")


def test_a_gpu_that_cannot_be_used_is_worth_a_line(capsys, model, tmp_path, monkeypatch):
    monkeypatch.setattr(place, "trouble_of", lambda index: "made up")
    monkeypatch.setattr(place, "has_gpu", lambda: True)
    code, _, err = _run(capsys, "steps", f"{model}:80x1:2", "--out", str(tmp_path), "-q")
    assert (code, err) == (0, "glimpse: running on the CPU: the GPU cannot be used: made up\n")


def test_the_gpu_of_a_number_is_taken(monkeypatch):
    monkeypatch.setattr(place, "trouble_of", lambda index: None)
    found, dtype = bench_options.where(bench_options.GridOptions(device="cuda:2"))
    assert (found.device, dtype) == (torch.device("cuda", 2), torch.bfloat16)

"""`glimpse bench` with block drafts: one adapter for a model and for its twin, and refused where nobody reads it."""

from __future__ import annotations

import json
from functools import partial

import pytest
from tests.adapters import write_random_adapter
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM
from glimpse.bench import grow
from glimpse.bench.fleet import effort
from glimpse.bench.grow_plan import GrownShape
from glimpse.cli import app
from glimpse.planning import roofs


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(roofs, "_COPIED", {"cpu": 2**20})
    monkeypatch.setattr(roofs, "_SIDE", {"cpu": 64})
    monkeypatch.setitem(grow.SHAPES, "big", GrownShape(hidden_size=96, heads=16, kv_heads=4, head_dim=16, layers=3))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "tiny", max_position_embeddings=512))


@pytest.fixture(scope="module")
def adapter(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    return str(write_random_adapter(folder / "adapter.safetensors", LLM(model, drafter="none"), scale=0.05))


def run(capsys, *argv):
    code = app.run(["bench", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_blocks_of_a_model_and_of_its_twin(capsys, model, adapter, tmp_path):
    """One adapter serves both, and the twin accepts what the model does."""
    argv = [f"{model}:80x2", f"{model}@big:80x2", "--drafter", "block", "--draft", "3", "--pairs", "1"]
    argv += ["--temperature", "0", "--out", str(tmp_path), "--json", "-q"]
    code, out, err = run(capsys, "decode", *argv, "--adapter", adapter)
    assert code == 0, err
    small, big = (cell["laws"]["greedy"]["drafted"][0]["acceptance"] for cell in json.loads(out)["runs"])
    assert small["accepted"] == big["accepted"] > 0
    assert json.loads(out)["settings"]["adapter"].startswith("adapter.safetensors ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("--drafter block", "drafter 'block' needs --adapter FILE"),
        ("--drafter block --adapter nowhere", "--adapter 'nowhere' is no file"),
        ("--drafter lookup --adapter a", "--adapter 'a' means nothing to drafter 'lookup'"),
        ("--adapter a", "--adapter 'a' means nothing to drafter 'sparse'"),
    ],
)
def test_an_adapter_goes_with_block_alone(capsys, model, argv, words):
    code, _, err = run(capsys, "decode", "-m", model, "--context", "80", *argv.split())
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert words in err


def test_blocks_in_batches_of_a_model_and_of_its_twin(capsys, model, adapter, tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "FleetEffort", partial(effort.FleetEffort, rows=1, warm=1, tokens=3, room=24))
    argv = [f"{model}:80x2", f"{model}@big:80x2", "--arms", "block-parallel,block-sequential,block", "--turns", "1"]
    code, out, err = run(capsys, "fleet", *argv, "--adapter", adapter, "--out", str(tmp_path), "--json", "-q")
    assert code == 0, err
    for cell in json.loads(out)["runs"]:
        assert [arm["arm"] for arm in cell["arms"]] == ["none", "block-parallel", "block-sequential", "block"]
        assert not any(sum(arm["parted"]) for arm in cell["arms"])
    code, _, err = run(capsys, "fleet", *argv, "--out", str(tmp_path))
    assert (code, "the arms none, block-parallel, block-sequential, block needs --adapter FILE" in err) == (2, True)
    code, _, err = run(capsys, "fleet", *argv, "--adapter", adapter, "--budget", "40")
    assert (code, "--budget 40 means nothing to the arms none, block-parallel" in err) == (2, True)
    code, _, err = run(capsys, "fleet", f"{model}:80x2", "--adapter", adapter)
    assert (code, "means nothing to the arms none, synchronised, feedback" in err) == (2, True)


def test_a_timeline_of_blocks(capsys, model, adapter, tmp_path):
    """A model's and its twin's: the masks of both are those of one adapter, which the file names without its folder."""
    argv = [
        f"{model}:80x2",
        f"{model}@big:80x2",
        "--drafter",
        "block",
        "--steps",
        "12",
        "--pacer",
        "fixed",
        "--out",
        str(tmp_path),
    ]
    code, out, err = run(capsys, "timeline", *argv, "--adapter", adapter, "--json", "-q")
    assert code == 0, err
    found = json.loads(out)
    assert found["settings"]["options"]["adapter"].startswith("adapter.safetensors ")
    for cell in found["runs"]:
        assert any("v" in lane["steps"] for lane in cell["lanes"]), cell
    assert len(list(tmp_path.glob("*.svg"))) == 2

"""`glimpse train block` as it is typed, and its adapter in use."""

from __future__ import annotations

import json

import pytest

from glimpse.cli import app

SMALL = "--size 3 --layers 1 --rank 2 --inner 4 --steps 4 --length 24 --sequences 1 --branches 3 --every 2 --device cpu"


def run(capsys, *argv):
    code = app.run(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("the rain in the north and the stones on the shore " * 20)
    return folder


def test_an_adapter_is_trained_and_used(capsys, tiny_folder, texts, tmp_path):
    out = tmp_path / "adapter.safetensors"
    argv = ["train", "block", "-m", str(tiny_folder), "--text", str(texts), "--out", str(out), *SMALL.split()]
    code, stdout, err = run(capsys, *argv, "--json")
    assert code == 0, err
    value = json.loads(stdout)
    assert (code, value["done"]) == (0, True)
    assert [point["step"] for point in value["points"]] == [2, 4]
    assert "training: 4 steps of 1 x 24 tokens; a line every 2 steps" in err
    assert "step 4 of 4: loss" in err
    assert len((tmp_path / "adapter.safetensors.log").read_text().splitlines()) == 2
    prompt = ["--prompt", "the rain", "--no-chat", "--max-tokens", "12", "--temperature", "0", "--device", "cpu"]
    used = ["generate", "-m", str(tiny_folder), *prompt, "--drafter", "block", "--adapter", str(out), "--json"]
    code, stdout, err = run(capsys, *used, "--pacer", "fixed")
    value = json.loads(stdout)
    assert code == 0, err
    assert value["speculation"]["drafter"] == "block"
    assert value["speculation"]["drafted"] > 0
    assert value["settings"]["adapter"] == str(out)
    _, stdout, _ = run(capsys, "generate", "-m", str(tiny_folder), *prompt, "--drafter", "none", "--json")
    assert json.loads(stdout)["token_ids"] == value["token_ids"]


def test_a_finished_training_is_left_as_it_is(capsys, tiny_folder, texts, tmp_path):
    out = tmp_path / "a"
    argv = ["train", "block", "-m", str(tiny_folder), "--text", str(texts), "--out", str(out), *SMALL.split()]
    run(capsys, *argv)
    before = out.read_bytes()
    code, stdout, _ = run(capsys, *argv, "--json")
    assert (code, json.loads(stdout)["points"], out.read_bytes()) == (0, [], before)


def test_layers_that_a_model_does_not_have_are_not_tuned(capsys, tiny_folder, texts, tmp_path):
    """Left out, a small model has all of its own tuned; asked for, so many have to be there."""
    out = tmp_path / "new" / "a"
    argv = ["train", "block", "-m", str(tiny_folder), "--text", str(texts), "--out", str(out), *SMALL.split()]
    code, stdout, err = run(capsys, *argv, "--layers", "31")
    assert (code, stdout) == (2, "")
    assert err.splitlines()[-1] == "glimpse: --layers 31: this model has 2; ask for no more"
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ("", 2, "needs --text FOLDER and --out FILE"),
        ("--text nowhere --out a", 2, "no such folder of texts: nowhere"),
        ("--text TEXTS --out .", 2, "'.' is a folder; name a file for the adapter"),
        ("--text TEXTS --out TEXTS/a", 2, "lies in the folder of texts"),
        ("--text TEXTS --out a --seed 99999999999999999999", 2, "seed must be a whole number >= 0 and <= 4294967296"),
        ("--text TEXTS --out a --rank 0", 2, "rank must be"),
        ("--text TEXTS --out a --minutes 0", 2, "--minutes must be more than 0, not 0"),
        ("--text TEXTS --out a --dtype float16", 2, "dtype float16 is too coarse to train in"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, tiny_folder, texts, argv, code, words):
    given = [word.replace("TEXTS", str(texts)) for word in argv.split()]
    found, stdout, err = run(capsys, "train", "block", "-m", str(tiny_folder), "--device", "cpu", *given)
    assert (found, stdout) == (code, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1

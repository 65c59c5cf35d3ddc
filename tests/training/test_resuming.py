"""A training that is killed at any moment goes on as if nothing had been, and a spoilt state is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny import write_tiny_checkpoint

from glimpse.errors import ArgumentError, ModelError
from glimpse.model import load_checkpoint
from glimpse.training import loop
from glimpse.training.journal import PointLog
from glimpse.training.loop import Trainer
from glimpse.training.place import check_out
from glimpse.training.recipe import Recipe
from glimpse.training.state import State
from glimpse.training.texts import read_corpus

RECIPE = Recipe(size=3, layers=1, rank=2, inner=4, steps=4, length=24, sequences=1, branches=2, seed=5)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_checkpoint(write_tiny_checkpoint(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("the rain in the north and the stones on the shore " * 20)
    return read_corpus(folder, checkpoint.tokenizer, RECIPE.length, checkpoint.spec.vocab_size)


def train(checkpoint, corpus, out, hear=lambda point: None):
    return Trainer(checkpoint, corpus, RECIPE, out).run(hear, every=2)


def points(out):
    log = out.with_name(f"{out.name}.log").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in log]


@pytest.fixture(scope="module")
def whole(checkpoint, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "a"
    assert train(checkpoint, corpus, out)
    return out


class Killed(BaseException):
    """What no code may catch."""


def killing(real, turn: int, *, after: bool):
    """The function, which is killed in one of its turns, before it does anything or afterwards."""
    calls = []

    def run(*args, **options):
        calls.append(None)
        if len(calls) == turn and not after:
            raise Killed
        found = real(*args, **options)
        if len(calls) == turn:
            raise Killed
        return found

    return run


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize(
    ("holder", "name"),
    [(loop, "write_adapter"), (Trainer, "_held_out"), (PointLog, "add"), (State, "save"), (Trainer, "_step")],
    ids=["adapter", "held", "log", "state", "step"],
)
def test_it_may_be_killed_at_any_moment(checkpoint, corpus, whole, tmp_path, monkeypatch, holder, name, turn, after):
    out = tmp_path / "a"
    monkeypatch.setattr(holder, name, killing(getattr(holder, name), turn, after=after))
    with pytest.raises(Killed):
        train(checkpoint, corpus, out)
    monkeypatch.undo()
    assert train(checkpoint, corpus, out)
    assert out.read_bytes() == whole.read_bytes()
    assert out.with_name("a.state").read_bytes() == whole.with_name("a.state").read_bytes()
    # Groups of steps that were cut in two have their loss in two lines, or in none.
    assert [point["step"] for point in points(out)] == [2, 4]
    assert [point["held_loss"] for point in points(out)] == [point["held_loss"] for point in points(whole)]


def test_a_listener_that_fails_loses_nothing(checkpoint, corpus, whole, tmp_path):
    def gone(point):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        train(checkpoint, corpus, tmp_path / "a", gone)
    assert train(checkpoint, corpus, tmp_path / "a")
    assert points(tmp_path / "a") == points(whole)


@pytest.mark.parametrize("cut", [1, 30])
def test_half_a_line_of_the_log_is_dropped(checkpoint, corpus, whole, tmp_path, cut):
    out = tmp_path / "a"
    train(checkpoint, corpus, out)
    log = out.with_name("a.log")
    later = json.dumps({"step": 5, "loss": 1.0}) + "\n"
    log.write_text(log.read_text() + later + later[:-cut])
    assert train(checkpoint, corpus, out)
    assert points(out) == points(whole)


def test_an_adapter_that_was_removed_is_written_again(checkpoint, corpus, whole, tmp_path):
    out = tmp_path / "a"
    train(checkpoint, corpus, out)
    out.unlink()
    assert train(checkpoint, corpus, out)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stored: {name: tensor for name, tensor in stored.items() if name != "exp_avg.mask"},
        lambda stored: stored | {"mask": torch.zeros(3)},
        lambda stored: stored | {"more": torch.zeros(3)},
        lambda stored: {name: tensor.double() for name, tensor in stored.items()},
    ],
    ids=["missing", "shape", "more", "dtype"],
)
def test_a_spoilt_state_is_refused(checkpoint, corpus, whole, tmp_path, spoil):
    from safetensors import safe_open

    source, state = whole.with_name("a.state"), tmp_path / "a.state"
    with safe_open(source, "pt") as file:
        facts = file.metadata()
    save_file(spoil(load_file(source)), state, facts)
    with pytest.raises(ModelError, match="not those of a training; delete it to begin anew"):
        Trainer(checkpoint, corpus, RECIPE, tmp_path / "a")


def test_steps_that_are_none_are_refused(checkpoint, corpus, whole, tmp_path):
    from safetensors import safe_open

    with safe_open(whole.with_name("a.state"), "pt") as file:
        facts = json.loads(file.metadata()["glimpse"]) | {"steps": None}
    save_file(load_file(whole.with_name("a.state")), tmp_path / "a.state", {"glimpse": json.dumps(facts)})
    with pytest.raises(ModelError, match="its tensors or steps"):
        Trainer(checkpoint, corpus, RECIPE, tmp_path / "a")


def test_where_an_adapter_cannot_be_is_known_at_once(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    (tmp_path / "file").touch()
    for out, message in (
        (tmp_path, "is a folder; name a file"),
        (texts / "deep" / "a", "lies in the folder of texts, and would be trained on"),
        (tmp_path / "file" / "a", "cannot write .*: (Not a directory|File exists)"),
        (tmp_path / ("x" * 300), "cannot write .*: File name too long"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check_out(out, texts)
    check_out(tmp_path / "new" / "deep" / "a", texts)
    assert {path.name for path in tmp_path.iterdir()} == {"texts", "file"}, "nothing is made before a training"


def test_sequences_longer_than_the_context_are_refused(checkpoint, corpus, tmp_path):
    longer = Recipe(length=checkpoint.spec.context_length + 1)
    with pytest.raises(ArgumentError, match=f"more than the model's context of {checkpoint.spec.context_length}"):
        Trainer(checkpoint, corpus, longer, tmp_path / "a")

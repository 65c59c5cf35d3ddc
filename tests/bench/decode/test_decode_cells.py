"""Cells of the engine, on a tiny model: what is timed is a real round, and a rewound cell writes the same again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.decode.acceptance import depths
from glimpse.bench.decode.cell import one_round
from glimpse.bench.decode.effort import Effort
from glimpse.bench.decode.host import EngineCell
from glimpse.bench.decode.measure import Measuring
from glimpse.bench.decode.models import Models, stretched
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.decode.tables import tables
from glimpse.bench.floors import Machine
from glimpse.bench.grow import SHAPES, GrownShape
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.planning.models import DEMO_SPEC

EFFORT = Effort(pairs=2, steps=6, rounds=2, repeats=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("decode") / "tiny", max_position_embeddings=512)


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder, drafter="none", pacer="fixed")


@pytest.fixture(scope="module")
def prompts(llm):
    return Text().prompts(llm.tokenizer, 96, 2)


@pytest.fixture(params=["sparse", "lookup"])
def cell(request, llm, prompts):
    made = EngineCell(llm.loaded.checkpoint, prompts, 24, 60, 3, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_drafted_and_plain_rows_write_the_same_text(cell, temperature):
    cell.resample(temperature, 1)
    cell.rewind(0)
    for _ in range(8):
        cell.plain()
    plain = cell.written()
    assert [len(own) for own in plain] == [9, 9]
    cell.rewind(3)
    assert [len(own) for own in cell.written()] == [1, 1]
    for _ in range(3):
        one_round(cell, 3)
    rounds, drafted = cell.noted(), cell.written()
    for row, own in enumerate(drafted):
        assert own[:9] == plain[row][: len(own)]
        assert len(own) == 1 + sum(found.committed[row] for found in rounds)
    assert depths(rounds, 3).tokens == sum(map(len, drafted)) - 2


def test_sparse_drafts_have_the_length_asked_for_and_a_confidence(llm, prompts):
    cell = EngineCell(llm.loaded.checkpoint, prompts, 24, 60, 3)
    cell.rewind(2)
    one_round(cell, 2)
    (found,) = cell.noted()
    assert found.drafted == [2, 2]
    assert all(len(own) == 2 and all(0 < sure <= 1 for sure in own) for own in found.confidence)
    cell.select()
    cell.close()
    assert llm.loaded.prefixes.find(prompts[0]) == []


def test_a_seed_of_its_own_for_each_row_and_turn(llm, prompts):
    cell = EngineCell(llm.loaded.checkpoint, [prompts[0], prompts[0]], 24, 60, 3)
    texts = []
    for turn in (0, 1, 0):
        cell.resample(1.5, turn)
        cell.rewind(0)
        for _ in range(12):
            cell.plain()
        texts.append(cell.written())
    assert texts[0] == texts[2]
    assert len({tuple(own) for written in texts[:2] for own in written}) == 4
    cell.close()


@pytest.fixture(scope="module")
def measuring():
    models = Models(torch.float32, torch.device("cpu"))
    return Measuring(models, Text(), Machine(1e10, 1e10), EFFORT, budget=24)


def test_everything_about_a_cell(measuring, folder):
    found = measuring.cell(parse_cell(f"{folder}:96x2:2+3", "demo", [4]), lambda line: None)
    assert found["name"] == "tiny 96x2"
    steps = found["steps"]
    assert set(steps) == {"plain", "draft", "verify", "select", "verify_8"}
    assert set(steps["verify"]) == {"2", "3"}
    assert len(steps["plain"]["all"]) == 4
    assert steps["draft"]["median"] == pytest.approx(steps["draft"]["ratio"] * steps["draft"]["floor"])
    for law in ("T=0.7", "greedy"):
        own = found["laws"][law]
        assert [arm["drafts"] for arm in own["drafted"]] == [2, 3]
        assert [arm["parted"] for arm in own["drafted"]] == [[0, 0], [0, 0]]
        assert own["plain"]["tokens"] == [12, 12]
        arm = own["drafted"][0]
        assert sum(arm["tokens"]) == arm["acceptance"]["tokens"]
        assert arm["tokens_per_s"] == pytest.approx(sum(arm["tokens"]) / sum(arm["seconds"]))
        assert own["share"] == own["tokens_per_s"] / own["ceiling"]
        assert own["ties"] is None


def test_of_a_drafter_that_looks_up_only_the_plain_step_is_timed(measuring, folder):
    found = replace(measuring, drafter="lookup", temperatures=(0.0,)).cell(
        parse_cell(f"{folder}:96x1:3", "demo", [4]), str
    )
    law = found["laws"]["greedy"]
    assert set(found["steps"]) == {"plain"}
    assert (law["ceiling"], law["share"]) == (None, None)
    assert law["drafted"][0]["parted"] == [0, 0]
    assert len(tables([found])) == 3


def test_a_model_past_its_context_says_so(measuring, folder):
    shape = parse_cell(f"{folder}:600x1:2", "demo", [4])
    checkpoint = measuring.models.open(shape, 700)
    assert checkpoint.name == "tiny, rotary base raised from 10000 to 100000"
    assert checkpoint.spec.context_length == 700
    assert measuring.models.open(shape, 700) is checkpoint


def test_a_cell_of_a_grown_twin(measuring, folder, monkeypatch):
    monkeypatch.setitem(SHAPES, "big", GrownShape(layers=3, hidden_size=96, intermediate_size=192))
    shape = parse_cell(f"{folder}@big:96x1:2", "demo", [4])
    checkpoint = measuring.models.open(shape, 200)
    assert checkpoint.name.startswith("tiny, ")
    assert checkpoint.name.endswith(" cost")
    assert (shape.name, checkpoint.spec.layers, checkpoint.spec.hidden_size) == ("big 96x1", 3, 96)


def test_the_rotary_base_is_raised_only_past_the_context():
    assert stretched(DEMO_SPEC, 8192) is DEMO_SPEC
    assert stretched(DEMO_SPEC, 32200).rope.theta == 1e6
    assert stretched(DEMO_SPEC, 8192 * 16).rope.theta == pytest.approx(1e5 * 16 ** (64 / 62))


def test_text_too_short_is_named(llm, tmp_path):
    (tmp_path / "a.txt").write_text("a few words", encoding="utf-8")
    with pytest.raises(ArgumentError, match="tokens of text; a prompt of 96 needs a longer one"):
        Text(folder=tmp_path).prompts(llm.tokenizer, 96, 1)
    with pytest.raises(ArgumentError, match="no text"):
        Text(folder=tmp_path / "none").prompts(llm.tokenizer, 96, 1)
    with pytest.raises(ArgumentError, match=r"no \.npz file of token ids"):
        Text(ids=tmp_path / "a.txt").prompts(llm.tokenizer, 96, 1)


@pytest.mark.parametrize("longest", [20, 64])
def test_the_longest_drafts_have_room(folder, longest):
    measuring = Measuring(
        Models(torch.float32, torch.device("cpu")), Text(), Machine(1e10, 1e10), Effort(1, 2, 1, 1), 24, "lookup", ()
    )
    assert measuring.cell(parse_cell(f"{folder}:400x1:{longest}", "demo", [2]), print)["steps"]["plain"]


def test_weights_that_do_not_fit_are_refused_before_they_are_made(folder, monkeypatch):
    monkeypatch.setattr("glimpse.engine.memory.os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**21}.get)
    monkeypatch.setattr("glimpse.bench.decode.models.grow", None)
    models = Models(torch.float32, torch.device("cpu"))
    with pytest.raises(GlimpseError, match=r"the weights \(29.9 GiB\) do not fit: this machine has 8.0 GiB"):
        models.open(parse_cell(f"{folder}@llama-3.1-8b:64x1:2", "demo", [2]), 128)

"""Filled batches of the engine, on a tiny model: every policy writes the same, and what is counted adds up."""

from __future__ import annotations

import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.fleet.arms import FIXED, NONE, Arm, arms_named
from glimpse.bench.fleet.cell import FleetCell
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.fleet.measure import FleetMeasuring
from glimpse.bench.fleet.runs import Runs, rounds_of
from glimpse.bench.fleet.shape import parse_fleet
from glimpse.bench.fleet.tables import tables
from glimpse.bench.fleet.targets import targets
from glimpse.bench.fleet.window import Window
from glimpse.bench.floors import Machine
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM

EFFORT = FleetEffort(turns=2, rows=2, warm=2, tokens=6, room=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("fleet") / "tiny", max_position_embeddings=512)


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder, drafter="none", pacer="fixed")


@pytest.fixture
def cell(llm):
    made = FleetCell(llm.loaded.checkpoint, Text().prompts(llm.tokenizer, 96, 3), 24, 30)
    made.read()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["synchronised", "feedback", "fleet", "refresh"])
def test_every_policy_writes_the_plain_text(cell, name):
    plain, right = cell.run(Arm(NONE), 3, 0, 0.7, EFFORT)
    window, texts = cell.run(Arm(name), 3, 0, 0.7, EFFORT)
    assert all(own[: len(text)] == text[: len(own)] for own, text in zip(right, texts, strict=True))
    assert window.tokens == sum(window.by_row) >= 3 * 6
    assert window.tokens == sum(count for wrote in window.rounds for _, _, count in wrote)
    assert (plain.tokens, plain.steps, plain.captured, plain.ended) == (18, 6, 0, False)
    assert 0 < plain.busy <= plain.seconds


def test_prompts_are_read_once(cell):
    pool = cell._loaded.pool
    free = pool.free_pages
    cell.run(Arm(FIXED, 2), 2, 1, 0.0, EFFORT)
    assert pool.free_pages == free
    # Of 96 tokens the first five pages are kept; the sixth is the tail, which is always read again.
    assert pool.pages - free == 3 * 5


def test_fewer_rows_have_other_prompts_every_turn(cell):
    assert [cell.places(1, turn) for turn in range(4)] == [[0], [1], [2], [0]]
    assert sorted(cell.places(3, 5)) == [0, 1, 2]


def test_a_run_ends_with_the_first_row_that_does(cell):
    effort = FleetEffort(warm=2, tokens=40, room=30)
    window, texts = cell.run(Arm(FIXED, 3), 2, 0, 0.0, effort)
    assert window.ended
    assert max(map(len, texts)) == 30
    assert window.tokens < 80


def test_rows_that_do_not_fit_are_refused(llm, monkeypatch):
    monkeypatch.setattr("glimpse.bench.fleet.cell.load", lambda checkpoint, context, slots: llm.loaded)
    prompts = Text().prompts(llm.tokenizer, 96, 300)
    with pytest.raises(GlimpseError, match=r"300 rows of 126 tokens need 2400 pages .* at most \d+ rows fit"):
        FleetCell(llm.loaded.checkpoint, prompts, 24, 30)


@pytest.fixture(scope="module")
def measuring():
    made = FleetMeasuring(Models(torch.float32, torch.device("cpu")), Text(), Machine(1e10, 1e10), EFFORT, budget=24)
    yield made
    made.close()


def test_everything_about_a_batch(measuring, folder):
    lines = []
    shapes = [parse_fleet(f"{folder}:96x{rows}:2+3", "demo", [4]) for rows in (2, 3)]
    measuring.expect(shapes)
    found = measuring.cell(shapes[0], lines.append)
    assert found["name"] == "tiny 96x2"
    assert [arm["arm"] for arm in found["arms"]] == ["none", "synchronised", "feedback", "fixed", "fleet"]
    assert found["arms"][3]["length"] in (2, 3)
    for arm in found["arms"]:
        assert arm["parted"] == [0, 0]
        assert arm["tokens_per_s"] == pytest.approx(sum(arm["tokens"]) / sum(arm["seconds"]))
        assert min(arm["tokens"]) >= 12
    plain, *drafted = found["arms"]
    assert (plain["speedups"], plain["drafted"], plain["accepted"]) == ([1.0, 1.0], 0.0, 0.0)
    assert drafted[0]["drafted"] > 0
    assert any("refresh left out: no CUDA device" in line for line in lines)
    cell = next(iter(measuring._open.values()))
    assert cell.rows == 3
    measuring.cell(shapes[1], lines.append)
    assert next(iter(measuring._open.values())) is cell


def test_a_batch_of_unlike_rows(measuring, folder):
    measuring.arms = ("fleet",)
    found = measuring.cell(parse_fleet(f"{folder}:300x2:half", "demo", [4]), str)
    measuring.arms = None
    assert found["name"] == "tiny 300x2, half easy"
    for arm in found["arms"]:
        both = sum(arm["halves"][kind]["tokens_per_s"] for kind in ("easy", "hard"))
        assert both == pytest.approx(arm["tokens_per_s"])
    titles = [table.title for table in tables([found])]
    assert titles[1] == "Half of the rows easy text, half hard"
    assert [target.what for target in targets([found])] == ["tiny 300x2, half easy: fleet over none"]


def test_rounds_of_easy_and_of_hard_rows():
    window = Window(rounds=[[(0, 4, 5), (1, 4, 1)], [(1, 4, 2)]])
    runs = Runs(Arm("fleet"), [window], [[2, 5]])
    assert [(own.drafted, own.committed) for own in rounds_of(runs)] == [([4, 4], [5, 1]), ([4], [2])]
    assert [(own.drafted, own.committed) for own in rounds_of(runs, True)] == [([4], [5])]
    assert [(own.drafted, own.committed) for own in rounds_of(runs, False)] == [([4], [1]), ([4], [2])]


def test_arms_by_name():
    assert arms_named(["fleet", "none", "fleet"]) == ("none", "fleet")
    with pytest.raises(ArgumentError, match="unknown arm 'fast'; known: none, synchronised"):
        arms_named(["fast"])
    assert Arm(FIXED, 5).label == "fixed 5"
    assert Arm("fleet").options(64).budget_floor == 64

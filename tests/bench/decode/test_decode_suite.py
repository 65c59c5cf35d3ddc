"""A run of several cells: one that fails, one interrupted, going on, the result file, targets and tables."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from glimpse.bench import environment
from glimpse.bench.decode.effort import Effort
from glimpse.bench.decode.measure import Measuring
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.decode.suite import Suite
from glimpse.bench.decode.targets import targets
from glimpse.bench.floors import Machine
from glimpse.bench.folder import alone_in
from glimpse.bench.report import shown
from glimpse.bench.results import read_result
from glimpse.errors import ArgumentError, GlimpseError

HASH = "ab" * 20


def timing(median, ratio=1.0):
    return {"median": median, "low": median, "high": median, "floor": median / ratio, "ratio": ratio, "all": [median]}


def made_cell(name, how="device rounds in step", share=0.9):
    """A measured cell, as `Measuring.cell` gives it."""
    arm = {
        "drafts": 4, "tokens_per_s": 30.0, "seconds": [1.0], "tokens": [30], "host_share": 0.01, "speedup": 3.0,
        "speedup_over_good_plain": 2.5, "parted": [0],
        "acceptance": {"accepted": 3.0, "measured": [0.9, None], "predicted": [0.8, None], "tokens": 30},
    }  # fmt: skip
    law = {
        "law": "T=0.7", "pairs": 1, "distinct_4grams": 0.9, "plain": arm | {"drafts": 0, "host_share": 0.06},
        "drafted": [arm], "best": 4, "tokens_per_s": 30.0, "speedup": 3.0, "speedup_over_good_plain": 2.5,
        "host_share": 0.01, "ceiling": 33.0, "ceiling_drafts": 5, "share": share, "ties": None,
    }  # fmt: skip
    steps = {
        "plain": timing(4e-3, 1.3), "draft": timing(1e-3, 2.0), "verify": {"4": timing(5e-3, 1.5)},
        "select": timing(2e-4), "verify_8": {"without": timing(5e-3, 1.45), "with importance": timing(5.4e-3, 1.5)},
    }  # fmt: skip
    return {"name": name, "model": "m", "context": 8000, "rows": 64, "how": how, "steps": steps, "laws": {"T=0.7": law}}


class Measured(Measuring):
    """Cells that cost nothing; one raises what it is told to."""

    raises: ClassVar[dict[int, BaseException]] = {}
    asked: ClassVar[list[int]] = []

    def cell(self, shape, say):
        self.asked.append(shape.rows)
        if shape.rows in self.raises:
            raise self.raises[shape.rows]
        return made_cell(shape.name)


@pytest.fixture
def suite(tmp_path):
    Measured.raises, Measured.asked = {}, []
    lines = []
    measuring = Measured(Models(torch.float32, torch.device("cpu")), Text(), Machine(1e10, 1e10), Effort())
    made = Suite("decode", measuring, tmp_path, commit=HASH, say=lines.append, complain=lines.append)
    return made, lines, tmp_path / "cpu-decode.json"


CELLS = [parse_cell(f"demo:8000x{rows}", "demo", [4]) for rows in (1, 64, 3)]


def test_a_failed_cell_is_named_and_the_rest_goes_on(suite):
    made, lines, path = suite
    Measured.raises = {64: ArgumentError("no room"), 3: ZeroDivisionError("division")}
    made.run(CELLS)
    assert made.failed == ["demo 8000x64", "demo 8000x3"]
    assert "demo 8000x64 failed: no room" in lines
    assert "demo 8000x3 failed: ZeroDivisionError: division" in lines
    result = read_result(path)
    assert [run.get("error") for run in result.runs] == [None, "no room", "ZeroDivisionError: division"]
    assert (result.commit, result.floors) == (HASH, {"bandwidth": 1e10, "rate": 1e10})


def test_running_out_of_memory_is_said_in_words(suite):
    made, lines, _ = suite
    Measured.raises = {1: RuntimeError("[alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")}
    made.run(CELLS[:1])
    assert "failed: out of memory (this machine has" in lines[-1]
    assert "a shorter context, fewer rows or a smaller model may fit" in lines[-1]


def test_an_interrupted_run_keeps_what_is_there_and_goes_on(suite):
    made, _, path = suite
    Measured.raises = {64: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        made.run(CELLS)
    assert [run["name"] for run in read_result(path).runs] == ["demo 8000x1"]
    Measured.raises, Measured.asked[:] = {}, []
    made.run(CELLS)
    assert Measured.asked == [64, 3]
    assert len(read_result(path).runs) == 3
    Measured.asked[:] = []
    made.run(CELLS)
    assert Measured.asked == [1, 64, 3]  # it had ended: nothing to go on with


def test_after_its_time_only_the_first_missing_cell_is_measured(suite):
    made, lines, path = suite
    made.seconds = -1.0
    made.run(CELLS)
    assert len(read_result(path).runs) == 1
    assert lines[-1] == "no time left for demo 8000x64, demo 8000x3; the same command goes on from here"
    made.run(CELLS)
    assert Measured.asked == [1, 64]


def test_an_interruption_after_a_cell_was_kept_loses_nothing(suite, monkeypatch):
    made, _, path = suite
    made.say = _interrupts
    with pytest.raises(KeyboardInterrupt):
        made.run(CELLS)
    assert [run["name"] for run in read_result(path).runs] == ["demo 8000x1"]
    assert made.result is not None


def _interrupts(line):
    if "measured" in line:
        raise KeyboardInterrupt


def test_where_nothing_was_measured_nothing_is_left(suite):
    made, _, path = suite
    Measured.raises = dict.fromkeys((1, 64, 3), ArgumentError("no room"))
    made.run(CELLS)
    assert not list(path.parent.iterdir())


def test_a_result_that_cannot_be_written_keeps_the_journal(suite, monkeypatch):
    made, _, path = suite
    with monkeypatch.context() as patched:
        patched.setattr("glimpse.bench.decode.suite.write_result", _full)
        with pytest.raises(GlimpseError, match="full"):
            made.run(CELLS[:1])
    made.run(CELLS[:1])
    assert Measured.asked == [1]
    assert len(read_result(path).runs) == 1


def _full(*_):
    raise GlimpseError("full")


def test_another_run_in_the_same_folder_is_refused(suite):
    made, _, path = suite
    with alone_in(path.parent, "decode"), pytest.raises(GlimpseError, match="in use by another run"):
        made.run(CELLS)
    assert not Measured.asked


def test_targets_of_a_filled_cell():
    found = {target.what: target for target in targets([made_cell("demo 8000x64")])}
    values = {what.removeprefix("demo 8000x64: "): (target.target, target.value) for what, target in found.items()}
    assert values["decode step / floor"] == ("<= 1.35", 1.3)
    assert values["verify of 8 tokens / floor"] == ("<= 1.4", 1.45)
    assert values["importance, share of verify"] == ("<= 0.05", pytest.approx(0.04))
    assert values["selection, share of a round"] == ("<= 0.05", pytest.approx(0.2 / 9))
    assert values["draft step, ms"] == ("<= 0.75", 1.0)
    assert values["host time not hidden, share"] == ("<= 0.05", 0.06)
    assert values["tokens per second / ceiling"] == (">= 0.8", 0.9)
    assert values["speedup over plain"] == (">= 3.0", 3.0)
    large = {target.what for target in targets([made_cell("llama-3.1-8b 8000x1")])}
    assert "llama-3.1-8b 8000x1: draft step / floor" in large
    assert "llama-3.1-8b 8000x1: speedup over plain" not in large
    assert targets([made_cell("demo 8000x64", how="engine, 2 threads")]) == []


def test_importance_of_few_rows_is_no_target():
    few = targets([made_cell("demo 8000x8") | {"rows": 8}])
    assert [target.what for target in few if "importance" in target.what] == []


def test_the_tables_say_pass_or_short(suite):
    made, _, path = suite
    made.run(CELLS[1:2])
    text = shown(read_result(path))
    assert "demo 8000x64  T=0.7  30.0" in text
    assert "decode step / floor          <= 1.35  1.3      pass" in text
    assert "short by 3.6%" in text
    assert "0.90 -" in text


def test_a_commit_is_told_or_asked_or_unknown(tmp_path):
    assert environment.known_commit(tmp_path, HASH) == (HASH, False)
    assert environment.known_commit(tmp_path, None) == ("0" * 40, True)
    with pytest.raises(ArgumentError, match="'abc' is not 40 hexadecimal digits"):
        environment.known_commit(tmp_path, "abc")

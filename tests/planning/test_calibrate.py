"""Measuring step costs with a tiny model, keeping them, and starting from them."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.cache.recall import RecallBudget
from glimpse.engine.build import build_engine
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model import load_checkpoint
from glimpse.pacing.calibration import CalibrationError, device_name, find, is_processor, path_of, read, shape_of, write
from glimpse.pacing.costs import FEATURES, StepCosts, StepLoad
from glimpse.planning import Acceptance, Setting, find_device, make_plan, roofs
from glimpse.planning.effort import Effort
from glimpse.planning.measure import calibrate

QUICK = Effort(seconds=2.0, rounds=2, plain_steps=3, contexts=(64, 400), drafts=(0, 1, 3), batches=(1, 2))


@pytest.fixture(scope="module", autouse=True)
def _small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofs, "_COPIED", {"cpu": 2**20})
        patch.setattr(roofs, "_SIDE", {"cpu": 64})
        yield


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate") / "tiny"
    return load_checkpoint(write_tiny_checkpoint(folder, max_position_embeddings=640))


@pytest.fixture(scope="module")
def calibration(checkpoint):
    """Measured once: a calibration cannot be changed."""
    return calibrate(load(checkpoint, None, 2), QUICK)


def test_every_kind_of_step_is_measured_and_nothing_is_left_behind(checkpoint):
    loaded, heard = load(checkpoint, None, 2), []
    found = calibrate(loaded, QUICK, lambda done, total: heard.append((done, total)))
    loads = [dict(zip(FEATURES[1:], point.load, strict=True)) for point in found.points]
    assert {load["full_tokens"] for load in loads} >= {0, 1, 2, 4, 8}
    assert {load["draft_tokens"] for load in loads} == {0, 1, 2}
    assert {load["rounds"] for load in loads} == {0, 1, 2}
    assert max(load["full_kv"] for load in loads) > 2 * 400
    assert all(point.seconds > 0 and point.predicted > 0 for point in found.points)
    assert min(found.coefficients) >= 0 < max(found.coefficients)
    assert found.spread >= 0
    assert found.shape == shape_of(checkpoint.spec)
    assert found.bandwidth > 1e8
    assert found.rate > 1e7
    assert heard[-1] == (24, 24)
    assert loaded.pool.free_pages == loaded.pool.pages
    assert loaded.pool.promised == 0


def test_it_is_bounded_and_needs_some_context(checkpoint):
    with pytest.raises(ArgumentError, match="a context of 40 is too short to calibrate with; at least"):
        calibrate(load(checkpoint, 40, 1), QUICK)
    found = calibrate(load(checkpoint, 640, 1), replace(QUICK, seconds=1e-6))
    assert {point.load[0] for point in found.points} >= {1, 2, 4}


def test_how_far_repeats_lie_from_the_fastest_of_them_is_told(checkpoint, monkeypatch):
    """Of a kind: the median of all its repeats, of both passes, over the least; of all kinds the median."""
    passes = iter([[(1, [2.0, 3.0, 3.0]), (2, [5.0])], [(1, [4.0, 4.0, 4.0]), (2, [10.0, 5.5])]])
    timed = [[(StepLoad(full_tokens=tokens), seconds) for tokens, seconds in own] for own in passes]
    monkeypatch.setattr("glimpse.planning.measure._one_pass", lambda *_, finish: timed[0 if finish else 1])
    found = calibrate(load(checkpoint, None, 2), QUICK)
    assert [point.seconds for point in found.points] == [3.0, 5.0]
    assert found.spread == pytest.approx(((3.5 / 2.0 - 1) + (5.5 / 5.0 - 1)) / 2)
    assert found.uneven
    assert not replace(found, spread=0.01).uneven


def test_it_is_kept_and_found_again(checkpoint, calibration):
    path = write(calibration)
    assert path == path_of(calibration.device, "tiny", "float32")
    assert read(path) == calibration
    assert find("tiny", checkpoint.spec, torch.float32, torch.device("cpu")) == calibration
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    value = json.loads(path.read_text())
    assert value["glimpse_calibration"] == 3
    assert set(value["seconds_per"]) == set(FEATURES)
    assert find("tiny", checkpoint.spec, torch.bfloat16, torch.device("cpu")) is None
    assert find("other", checkpoint.spec, torch.float32, torch.device("cpu")) is None
    del value["spread"]
    path.write_text(json.dumps(value))
    assert read(path) == replace(calibration, spread=None), "written before the spread was kept"


def test_an_engine_starts_from_it(checkpoint, calibration):
    write(replace(calibration, coefficients=(1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 7.0, 8.0, 9.0)))
    costs = build_engine(load(checkpoint, None, 1), EngineOptions()).parts.costs
    assert costs.coefficients[[0, 1, 2, 4, 5, 6, 7, 8]].tolist() == [1, 2, 3, 5, 6, 7, 8, 9]
    assert 0 < costs.coefficients[3] < 1e-6
    assert costs.steps == 0
    assert costs.seen(StepLoad(full_tokens=1)) == 0


def test_costs_go_on_learning_from_where_they_start():
    """A start that is twice too dear is scaled down by a single kind of step, the unseen kinds with it."""
    costs = StepCosts(1, 1, start=(0.02, 0.002, 0.001, 0, 0, 0, 0, 0, 0))
    load = StepLoad(full_tokens=1)
    assert costs.seconds(load) == pytest.approx(0.022)
    for _ in range(5):
        costs.observe(load, 0.011)
    assert costs.seconds(load) == pytest.approx(0.011, rel=1e-3)
    assert costs.seconds(StepLoad(draft_tokens=1)) == pytest.approx(0.0105, rel=1e-3)
    assert np.isfinite(costs.coefficients).all()


def test_files_of_the_version_before_are_read(calibration):
    """There one price stood for recall sets that are chosen and for mask tokens that ride."""
    path = write(calibration)
    value = json.loads(path.read_text())
    value["glimpse_calibration"] = 2
    for named in (value["seconds_per"], *value["points"]):
        del named["riding"]
    path.write_text(json.dumps(value))
    prices = dict(zip(FEATURES, calibration.coefficients, strict=True))
    assert read(path) == replace(calibration, coefficients=(*calibration.coefficients[:-1], prices["rounds"]))
    for broken in ({"seconds_per": []}, {"seconds_per": {}}, {"points": 3}, {"points": [7]}):
        path.write_text(json.dumps(value | broken))
        with pytest.raises(CalibrationError, match="a value is missing or broken"):
            read(path)


def _changed(text, **values):
    """A calibration's text with other prices or figures."""
    value = json.loads(text)
    for name, number in values.items():
        (value["seconds_per"] if name in FEATURES else value)[name] = number
    return json.dumps(value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[: len(text) // 2], "not readable as JSON"),
        (lambda text: "", "not readable as JSON"),
        (lambda text: "[1, 2]", "not written by glimpse calibrate"),
        (lambda text: text.replace('"glimpse_calibration": 3', '"glimpse_calibration": 99'), "version 99, not 3"),
        (lambda text: text.replace('"seconds_per"', '"hours_per"'), "a value is missing or broken"),
        (lambda text: text.replace('"layers": 2', '"layers": 3'), "of a model of another shape"),
        (lambda text: text.replace('"bandwidth": ', '"bandwidth": -'), "is not a positive number"),
        (lambda text: text.replace('"memory": ', '"memory": Infinity, "was": '), "inf is not a positive number"),
        (lambda text: text.replace('"bandwidth": ', f'"bandwidth": 1{"0" * 400}, "was": '), "OverflowError"),
        (lambda text: text.replace('"seconds": ', '"seconds": NaN, "was": '), "nan is not a positive number"),
        (lambda text: text.replace('"full_kv": ', '"full_kv": 1e308, "was": ', 1), "a cost of 1e+308 s"),
        (lambda text: _changed(text, step=0, full_tokens=0, full_kv=0), "a plain step costs nothing"),
        (lambda text: _changed(text, bandwidth=1e-320), "a bandwidth of 1e-320 a second is none that was measured"),
        (lambda text: _changed(text, rate=1e300), "a rate of 1e+300 a second is none that was measured"),
        (lambda text: "[" * 100_000, "not readable as JSON"),
        (lambda text: text.replace('"float32"', '"float7"'), "dtype 'float7' is none of float32, bfloat16, float16"),
        (lambda text: text.replace('"float32"', "[1]"), "dtype [1] is none of"),
    ],
)
def test_a_file_that_cannot_be_used_is_ignored_with_one_line(checkpoint, calibration, caplog, change, words):
    path = write(calibration)
    path.write_text(change(path.read_text()))
    with caplog.at_level(logging.WARNING, logger="glimpse"):
        assert load(checkpoint, None, 1).step_costs is None
    [record] = caplog.records
    message = record.getMessage()
    assert words in message
    assert str(path) in message
    assert "\n" not in message
    if "another shape" not in words:
        with pytest.raises(CalibrationError, match=re.escape(words)):
            read(path)
        with pytest.raises(ArgumentError, match="is not a calibration that can be used"):
            find_device(str(path))


def test_a_folder_that_cannot_be_written_is_an_error(calibration, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(GlimpseError, match="cannot write the calibration to"):
        write(calibration)


def test_a_plan_prices_with_it_where_the_model_is_the_same(checkpoint, calibration):
    priced = replace(calibration, coefficients=(0.010, 0.001, 0.002, 1e-5, 2e-5, 0.0, 0.003, 0.0, 0.0))
    device = find_device(str(write(priced)))
    assert (device.name, device.dtype, device.bandwidth) == (priced.device, "float32", priced.bandwidth)
    budget = RecallBudget(share=0.1, floor=40)
    found = make_plan(Setting(checkpoint.spec, torch.float32, 500, 2, device, budget), [Acceptance(0.9, 0.9)])
    plain = 0.010 + 2 * 0.001 + 2 * 501 * 1e-5
    assert found.measured
    assert found.plain_seconds == pytest.approx(plain)
    assert found.c == pytest.approx((0.010 + 2 * 0.002 + 2 * 50 * 2e-5) / plain)
    assert found.begin == pytest.approx(2 * 0.003 / plain)
    assert found.verify(3) == pytest.approx((0.010 + 2 * 4 * 0.001 + 2 * 504 * 1e-5) / plain)
    other = replace(checkpoint.spec, layers=7)
    floors = make_plan(Setting(other, torch.float32, 500, 2, device, budget), [])
    assert not floors.measured
    assert floors.begin == 0


def test_gpus_of_different_names_have_calibrations_of_their_own(monkeypatch):
    names = {0: "NVIDIA H200", 1: "NVIDIA L4"}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: names[device.index])
    paths = [path_of(device_name(torch.device("cuda", index)), "m", "bfloat16").name for index in names]
    assert paths == ["nvidia-h200--m--bfloat16.json", "nvidia-l4--m--bfloat16.json"]


def test_a_processor_is_known_by_its_name():
    assert is_processor(device_name(torch.device("cpu")))
    assert is_processor("Some CPU, 1 thread")
    assert not is_processor("NVIDIA H200")

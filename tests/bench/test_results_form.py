"""The form of result files: what is written is read back, and what is wrong is refused by name."""

import json
import math

import pytest

from glimpse.bench.results import Result, Table, Target, parse_result, read_result, write_result
from glimpse.errors import GlimpseError


def result(**changes):
    fields = {
        "suite": "speed",
        "device": {"kind": "cpu", "name": "A CPU", "cores": 2, "threads": 2},
        "versions": {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.24.0", "glimpse": "0.1.0"},
        "commit": "0123456789abcdef" * 2 + "01234567",
        "dirty": False,
        "quick": False,
        "settings": {"rounds": 5},
        "runs": [{"cell": "a", "seconds": [1.0, 2.0]}],
        "targets": [Target("speedup", ">= 1.8", 2.1), Target("cost", "<= 1.6", 1.7, "falls short by 6.2%: no idea")],
        "floors": {"read": 1e9},
        "tables": [Table("Title", ["a", "b"], [["1", "2"]])],
    }
    return Result(**fields | changes)


def test_what_is_written_is_read_back(tmp_path):
    path = write_result(result(), tmp_path)
    assert path.name == "cpu-speed.json"
    assert read_result(path) == result()
    assert [entry.name for entry in tmp_path.iterdir()] == ["cpu-speed.json"], "nothing half-written is left"


@pytest.mark.parametrize(
    ("target", "value", "ok"),
    [(">= 1.8", 1.8, True), (">= 1.8", 1.79, False), ("<= 1.6", 1.6, True), ("<= 1.6", 1.61, False),
     ("== 0", 0, True), ("== 0", 1, False), (">= 1", math.nan, False)],
)  # fmt: skip
def test_a_target_is_judged_by_its_value(target, value, ok):
    assert Target("it", target, value).ok is ok


@pytest.mark.parametrize("target", ["> 1", ">= one", "1.8", ""])
def test_a_target_that_cannot_be_judged_is_refused(target):
    with pytest.raises(GlimpseError, match="is not '>= N'"):
        Target("it", target, 1.0)


def test_a_note_says_by_how_much_and_why():
    noted = Target("speedup", ">= 2.0", 1.5).noted("the machine is slow")
    assert noted.note == "falls short by 25.0%: the machine is slow"
    assert "not written down" in Target("speedup", ">= 2.0", 1.5).noted(None).note
    assert Target("speedup", ">= 2.0", 2.5, "old").noted("the machine is slow").note == ""


def broken(change):
    value = json.loads(json.dumps(result().to_json()))
    change(value)
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("commit"), "has no 'commit'"),
        (lambda v: v.update(format=2), "format 1"),
        (lambda v: v.update(commit="HEAD"), "40 hexadecimal"),
        (lambda v: v["device"].pop("threads"), "device has no 'threads'"),
        (lambda v: v["versions"].update(torch=2), "versions: 'torch' is a int"),
        (lambda v: v.update(runs=[]), "at least one"),
        (lambda v: v["targets"][0].update(ok=False), "is True, not False"),
        (lambda v: v["targets"][1].pop("note"), "has no note"),
        (lambda v: v["targets"][0].update(target="fast"), "is not '>= N'"),
        (lambda v: v["tables"][0]["rows"].append(["1"]), "not one cell a column"),
        (lambda v: v["tables"][0]["rows"].append(["1", 2]), "table 'Title': 2 is a int, not a string"),
        (lambda v: v["tables"][0].update(columns=["a", None]), "table 'Title': None is a NoneType, not a string"),
        (lambda v: v["targets"][0].update(value=10**400), "target 'speedup': its value is a number of 401 digits"),
        (lambda v: v.update(dirty="no"), "'dirty' is a str"),
    ],
)
def test_a_wrong_file_is_refused(change, message):
    with pytest.raises(GlimpseError, match=message):
        parse_result(broken(change))


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "cpu-speed.json"
    with pytest.raises(GlimpseError, match=r"cpu-speed.json: cannot be read"):
        read_result(path)
    path.write_text('{"format": 1', encoding="utf-8")
    with pytest.raises(GlimpseError, match=r"cpu-speed.json: not JSON"):
        read_result(path)


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GlimpseError, match="cannot write"):
        write_result(result(), tmp_path / "file")

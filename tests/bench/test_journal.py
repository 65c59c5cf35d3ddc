"""The journal of a run under way."""

import pytest

from glimpse.bench.journal import Journal


def test_cells_survive_an_interruption(tmp_path):
    path, header = tmp_path / "run.jsonl", {"code": "a", "settings": {"n": 1}}
    first = Journal(path, header)
    assert first.add("one", {"value": 1}) == {"cell": "one", "value": 1}
    first.add("two", {"value": 2})
    assert list(Journal(path, header).cells) == ["one", "two"]


def test_a_half_written_line_is_dropped(tmp_path):
    path, header = tmp_path / "run.jsonl", {"code": "a"}
    Journal(path, header).add("one", {"value": 1})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"cell": "two", "val')
    again = Journal(path, header)
    assert list(again.cells) == ["one"]
    again.add("two", {"value": 2})
    assert list(Journal(path, header).cells) == ["one", "two"]


@pytest.mark.parametrize("line", ["[]", "3", "null", '{"value": 2}', '{"cell": []}'])
def test_a_line_of_another_form_is_dropped(tmp_path, line):
    path = tmp_path / "run.jsonl"
    Journal(path, {}).add("one", {})
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert list(Journal(path, {}).cells) == ["one"]


def test_other_code_settings_or_wishes_start_anew(tmp_path):
    path = tmp_path / "run.jsonl"
    Journal(path, {"code": "a"}).add("one", {})
    assert not Journal(path, {"code": "b"}).cells
    Journal(path, {"code": "b"}).add("one", {})
    assert not Journal(path, {"code": "b"}, fresh=True).cells


def test_close_leaves_nothing(tmp_path):
    journal = Journal(tmp_path / "run.jsonl", {})
    journal.close()
    assert not list(tmp_path.iterdir())

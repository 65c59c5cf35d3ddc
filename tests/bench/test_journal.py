"""The journal of a run under way, and its folder."""

import errno

import pytest

from glimpse.bench.folder import alone_in
from glimpse.bench.journal import Journal, JournalError
from glimpse.errors import GlimpseError


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


def test_what_is_no_text_or_was_changed_is_dropped(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    journal = Journal(path, {})
    assert not journal.cells
    journal.add("one", {"value": 1, "name": "a"})
    journal.add("two", {"value": 2, "name": "b"})
    path.write_text(path.read_text().replace('"name": "b"', '"nome": "b"'))
    assert list(Journal(path, {}).cells) == ["one"]


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    journal = Journal(path, {})
    journal.add("one", {})
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.open", _half_written)
        with pytest.raises(JournalError, match=r"cannot write .*run\.jsonl: No space left on device"):
            journal.add("two", {})
    journal.add("three", {})
    assert list(Journal(path, {}).cells) == ["one", "three"]


def _half_written(path, *_, **__):
    with open(path, "a") as file:
        file.write('[{"cell"')
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_suite_has_its_folder_alone(tmp_path):
    folder, refused = tmp_path / "out", r"out is in use by another run of decode; give another --out"
    with alone_in(folder, "decode"):
        with pytest.raises(GlimpseError, match=refused), alone_in(folder, "decode"):
            pass
        with alone_in(folder, "steps"), alone_in(tmp_path / "other", "decode"):
            pass
    with alone_in(folder, "decode"):
        pass
    assert not list(folder.iterdir())


def test_a_lock_that_a_run_has_just_removed_is_taken_anew(tmp_path, monkeypatch):
    """Between opening and locking, the run before may have removed the file: a lock on that keeps nobody out."""
    lock, locked = tmp_path / ".decode.lock", []

    def late(handle, how):
        if not locked:
            lock.unlink()
        locked.append(handle)

    monkeypatch.setattr("glimpse.bench.folder.fcntl.flock", late)
    with alone_in(tmp_path, "decode"):
        assert len(locked) == 2
        assert lock.exists()


def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GlimpseError, match=r"cannot write .*file"), alone_in(tmp_path / "file", "decode"):
        pass

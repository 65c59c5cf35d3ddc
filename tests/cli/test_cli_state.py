"""`glimpse models` and `glimpse doctor`."""

import json

import pytest

from glimpse.cli import app, doctor
from glimpse.model.demo import DEMO


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "models"))
    return tmp_path / "models"


def _json(capsys, *argv):
    code = app.run([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_models_without_the_demo_model(cache, capsys):
    code, result = _json(capsys, "models")
    [demo] = result["models"]
    assert code == 0
    assert (demo["name"], demo["licence"], demo["size_bytes"], demo["cached"]) == (
        "demo",
        "Apache-2.0",
        DEMO.size,
        False,
    )
    assert demo["path"] == str(cache / DEMO.file_name)
    assert "LlamaForCausalLM" in result["architectures"]
    assert app.run(["models"]) == 0
    assert "not in the cache yet: the first use takes 98 MB" in capsys.readouterr().out
    assert not cache.exists()


def test_doctor_finds_a_sound_machine(cache, capsys):
    code, result = _json(capsys, "doctor")
    assert (code, result["healthy"]) == (0, True)
    named = {"python", "torch", "transformers", "threads", "oneDNN", "GPU", "triton", "device", "server"}
    named |= {"cache folder", "demo model"}
    assert set(result["checks"]) == named
    assert app.run(["doctor"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(named)


def test_a_broken_demo_model_is_found(cache, capsys):
    cache.mkdir()
    (cache / DEMO.file_name).write_bytes(b"GGUF")
    code, result = _json(capsys, "doctor")
    assert (code, result["healthy"]) == (1, False)
    assert [name for name, check in result["checks"].items() if not check["ok"]] == ["demo model"]
    assert "4 bytes instead of" in result["checks"]["demo model"]["said"]


def test_a_cache_folder_that_is_a_file_is_found(cache, capsys):
    cache.write_bytes(b"")
    code, result = _json(capsys, "doctor")
    assert code == 1
    assert not result["checks"]["cache folder"]["ok"]


def test_a_check_that_fails_itself_is_a_finding(cache, capsys, monkeypatch):
    def _torch():
        raise ImportError("libc10.so\nis missing")

    monkeypatch.setattr(doctor, "CHECKS", (_torch,))
    assert app.run(["doctor"]) == 1
    assert "BROKEN  torch         ImportError: libc10.so is missing" in capsys.readouterr().out

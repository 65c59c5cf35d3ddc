"""Compiled loops: machine code is kept beside the module, else in the user's cache folder, else nowhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numba
import pytest

MODULE = """
from glimpse.drafting.compiled import compiled

@compiled
def double(value):
    return 2 * value
"""


def load(folder: Path):
    path = folder / "doubling.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept(folder: Path) -> list[Path]:
    return list(folder.rglob("doubling.double*.nbi"))


@pytest.mark.parametrize(("beside", "home"), [(True, True), (False, True), (False, False)])
def test_where_machine_code_is_kept(tmp_path, monkeypatch, beside, home):
    """A file in the way of a folder stands for one that cannot be written: tests may run as root."""
    package, cache = tmp_path / "package", tmp_path / "cache"
    package.mkdir()
    if not beside:
        (package / "__pycache__").touch()
    if not home:
        cache.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # what $NUMBA_CACHE_DIR sets
    assert load(package).double(21) == 42
    assert (len(kept(package)), len(kept(cache))) == (beside, home and not beside)

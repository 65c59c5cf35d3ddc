"""Compiled loops: machine code is kept beside the module, else in the user's cache folder, else nowhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import glimpse

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


LATE = """
import sys
import numba
from glimpse import LLM, SamplingParams

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("glimpse.")]
    return {one.py_func.__qualname__: len(one.signatures) for module in modules for one in vars(module).values()
            if isinstance(one, numba.core.dispatcher.Dispatcher)}

plain = LLM(sys.argv[1], drafter="none", device="cpu", threads=1)
prompts = [[5, 6, 7, 8, 9] * 20, list(range(5, 90)), [place * 7 % 89 + 3 for place in range(200)]]
for drafter in ("suffix", "racer", "racer+suffix", "sparse+racer", "auto"):
    llm = plain.variant(drafter=drafter, pacer=None)
    before = compiled()
    llm.generate(prompts, SamplingParams(max_tokens=30, temperature=0.8, seed=1))
    print(drafter, sorted(name for name, count in compiled().items() if count != before.get(name, 0)))
"""


def test_nothing_is_compiled_while_drafts_are_timed(tiny_folder):
    """A pacer would take the seconds of a compilation for the price of drafting, and give drafting up."""
    env = dict(os.environ) | {"PYTHONPATH": str(Path(glimpse.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(tiny_folder)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == [f"{name} []" for name in ("suffix", "racer", "racer+suffix", "sparse+racer", "auto")]

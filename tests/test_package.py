"""The package as a whole: who may import whom, that it works without triton, that its metadata is true."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

LINT = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"

WITHOUT_TRITON = """
import importlib, pkgutil, sys
sys.modules["triton"] = None
import glimpse
kernels = ("glimpse.attention.triton.", "glimpse.engine.device.", "glimpse.bench.decode.on_device.")
for module in pkgutil.walk_packages(glimpse.__path__, "glimpse."):
    if not module.name.startswith(kernels) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def run(*command, **more):
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, **more)


def test_the_rooms_know_only_whom_they_may():
    done = run(sys.executable, "-c", LINT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kept, 0 broken" in done.stdout


def test_every_module_imports_without_triton():
    done = run(sys.executable, "-c", WITHOUT_TRITON)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("group", ["dependencies", "dev", "serve"])
def test_everything_that_is_needed_is_pinned(group):
    project = PROJECT["project"]
    wanted = project["dependencies"] if group == "dependencies" else project["optional-dependencies"][group]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower() for line in lines if "==" in line and not line.startswith("#")}
    assert {need.partition(">=")[0].lower() for need in wanted} <= pinned


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src/glimpse/py.typed").exists()

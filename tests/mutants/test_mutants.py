"""The suite catches known bugs: each mutant makes its test fail. `python -m benchmarks.mutants` prints the table.

The tests that catch are run here without their baseline: in this same suite they pass without a mutant.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from tests.mutants.catalogue import DEVICE, EVERY, HOST, SERVE
from tests.mutants.mutant import Mutant, StaleMutant
from tests.mutants.run import ROOT

GROUPS = {"host": HOST, "serve": SERVE, "device": DEVICE}
NEEDS = {"serve": ("fastapi", "xgrammar", "openai"), "device": ("triton",)}
"""Modules without which the tests of a group are skipped."""


def test_names_are_unique_and_many():
    assert len(EVERY) == len(HOST) + len(SERVE) + len(DEVICE) >= 24


def test_what_is_gone_is_said():
    there = HOST[0]
    for where, old, said in (
        ("glimpse.acceptance.exact:strolled", there.old, "is gone"),
        ("glimpse.acceptance.nowhere:walk", there.old, "is gone"),
        (there.where, "what stands nowhere", "0 times"),
        (there.where, "at", "times"),
    ):
        with pytest.raises(StaleMutant, match=said):
            Mutant("m", "", where, old, "", "").check()


def test_a_mutant_is_gone_after_its_block():
    from glimpse.acceptance.exact import walk

    first = next(mutant for mutant in HOST if mutant.name == "first draft unverified")
    with first.installed():
        assert walk([5], [-1], [6, 7]) == [0]
    assert walk([5], [-1], [6, 7]) == []


@pytest.mark.parametrize("group", GROUPS)
def test_every_mutant_is_caught(group, tmp_path):
    """In a process of its own: nothing that ran under a bug stays in this one."""
    missing = [name for name in NEEDS.get(group, ()) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    out = tmp_path / "verdicts.json"
    names = [mutant.name for mutant in GROUPS[group]]
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.mutants.run", str(out), "--bare", *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    verdicts = json.loads(out.read_text())
    assert [verdict["name"] for verdict in verdicts] == names
    assert [verdict["name"] for verdict in verdicts if not verdict["caught"]] == []

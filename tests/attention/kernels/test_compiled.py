"""The kernels compile for an H200, on any machine: what the interpreter lets pass, the compiler may not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

A_FEW_WORDS = 64
"""Bytes a thread that may be spilled: the selection in registers uses them to the last."""
CASES = (
    "verify-8b",
    "verify-135m",
    "tree-8b",
    "mixed-8b",
    "draft-8b",
    "draft-135m",
    "select",
    "fused",
    "sample",
    "narrow-8",
    "narrow-64",
    "narrow-576",
    "rows",
    "trees-8b-64",
    "trees-135m-9",
    "groups-8b",
    "groups-135m",
)


@pytest.mark.skipif(
    not (Path(triton.__file__).parent / "backends/nvidia/bin/ptxas").exists(), reason="this triton has no assembler"
)
def test_kernels_compile_without_spills():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    program = Path(__file__).with_name("compiled.py")
    done = subprocess.run([sys.executable, program, *CASES], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == set(CASES)
    stacks = [int(line.split("'stack': ")[1].split("}")[0]) for line in lines]
    assert max(stacks) <= A_FEW_WORDS, done.stdout
    assert "wgmma" in lines[1], "the verify rows of the 8B shape should use the warpgroup matrix units"

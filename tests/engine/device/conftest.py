"""Triton's interpreter, chosen before triton loads, unless there is a GPU: then tests/gpu runs these cases."""

from __future__ import annotations

import os
import sys

import pytest
import torch

if torch.cuda.is_available():
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ["TRITON_INTERPRET"] = "1"
    if "triton" in sys.modules and type(sys.modules["triton"].language.sum).__name__ != "InterpretedFunction":
        pytest.skip("triton was imported before it could be told to interpret", allow_module_level=True)
    pytest.importorskip("triton", reason="triton is not installed")
    from attention.triton.interpreter import repair

    repair()

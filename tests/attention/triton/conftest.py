"""Kernels on the GPU where there is one, else under Triton's interpreter, which must be chosen before triton loads."""

from __future__ import annotations

import os
import sys

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
    if "triton" in sys.modules and type(sys.modules["triton"].language.sum).__name__ != "InterpretedFunction":
        pytest.skip("triton was imported before it could be told to interpret", allow_module_level=True)
pytest.importorskip("triton", reason="triton is not installed")
if not HAS_GPU:
    from attention.triton.interpreter import repair

    repair()

DTYPES = (torch.float32, torch.bfloat16, torch.float16) if HAS_GPU else (torch.float32,)


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if HAS_GPU else "cpu")


@pytest.fixture(params=DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param

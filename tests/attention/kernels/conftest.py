"""Kernels on the GPU where there is one, else under Triton's interpreter, which must be chosen before triton loads."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["test_*.py"]  # `make test` installs triton; without it the kernels cannot be loaded
elif not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
    from attention.kernels.bounds import watch
    from attention.kernels.interpreter import repair

    repair()
    watch()

DTYPES = (torch.float32, torch.bfloat16, torch.float16) if HAS_GPU else (torch.float32,)


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if HAS_GPU else "cpu")


@pytest.fixture(params=DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param

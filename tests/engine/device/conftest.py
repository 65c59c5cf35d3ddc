"""Triton's interpreter, chosen before triton loads, unless there is a GPU: then tests/gpu runs these cases."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

if torch.cuda.is_available() or importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ["TRITON_INTERPRET"] = "1"
    from attention.kernels.bounds import watch
    from attention.kernels.interpreter import repair

    repair()
    watch()


@pytest.fixture
def no_page_lost(llm):
    """The test gives back every page of its module's `llm`, and every promise of one."""
    free = llm.loaded.pool.free_pages
    yield
    assert (llm.loaded.pool.free_pages, llm.loaded.pool.promised) == (free, 0)

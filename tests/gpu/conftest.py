"""Tests that only a CUDA device can run. Elsewhere their modules, which load kernels to compile, are not collected."""

from __future__ import annotations

import pytest
import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    """Here device auto is what it is."""

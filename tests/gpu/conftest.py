"""Tests that only a CUDA device can run. Elsewhere their modules, which load kernels to compile, are not collected."""

from __future__ import annotations

import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]

"""Kernels for NVIDIA GPUs, in Triton. Nothing outside this folder imports triton, and this file does not either.

Every kernel can be captured in a CUDA graph: grids follow capacities known at capture, real lengths are read on the
device from int32 tensors, nothing waits for the host. Rows of length 0 are idle (padding) and come out as zeros.
`definitions` says in plain torch what each kernel computes; under `TRITON_INTERPRET=1`, set before triton is first
imported, the kernels run on a CPU (slowly: that is for tests).
"""

from __future__ import annotations

import importlib.util

import torch


def available() -> bool:
    """Whether the kernels can run here: triton is installed and there is a CUDA device of capability 8.0 or more."""
    if importlib.util.find_spec("triton") is None or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability() >= (8, 0)


__all__ = ["available"]

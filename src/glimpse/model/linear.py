"""One linear layer for the whole decoder: oneDNN-packed on a CPU that has it, plain otherwise."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Linear(Protocol):
    """y = x W^T + b on `x` [M, in], giving [M, out]."""

    def __call__(self, x: Tensor) -> Tensor: ...


class DenseLinear:
    """The weight as it is, [out, in]."""

    __slots__ = ("bias", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear:
    """The weight in oneDNN's blocked layout.

    The original is not kept. Verifying several tokens then costs little more than one, where the plain product of 2 to
    16 rows is several times slower.
    """

    __slots__ = ("_call", "bias", "packed")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        # No batch hint: measured best or equal at 1, 8 and 64 rows, while a hint of 1 is slow at 8.
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self.bias = bias
        self._call: Any = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self._call(x, self.packed, self.bias, "none", [], "")
        return out


def dense(linear: Linear) -> Linear:
    """The same linear layer with its weight as a plain tensor, which gradients flow through."""
    return DenseLinear(linear.packed.to_dense(), linear.bias) if isinstance(linear, PackedLinear) else linear


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this build and CPU multiply packed weights of `dtype`; found by trying a small product."""
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    weight = torch.arange(-32, 32, dtype=torch.float32).reshape(4, 16).to(dtype)
    x = torch.eye(16, dtype=dtype)
    try:
        return torch.equal(PackedLinear(weight)(x), weight.t())
    except (RuntimeError, AttributeError, NotImplementedError):
        return False


def packs(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether `make_linear` packs weights of `dtype` on `device`."""
    return device.type == "cpu" and can_pack(dtype)


def make_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """A linear layer of `weight` [out, in]; drop the weight after the call, or two copies stay in memory."""
    kind = PackedLinear if packs(weight.dtype, weight.device) else DenseLinear
    return kind(weight, bias)

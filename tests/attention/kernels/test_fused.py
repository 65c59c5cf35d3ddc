"""The kernels between the matrix products, against the decoder's own arithmetic."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.model.decoder import Norm
from glimpse.model.rope import Rotation


def draw(*shape, device, dtype, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def close(found, right):
    """Equal but for one rounding step of the dtype."""
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found, right, rtol=2 * eps, atol=2 * eps)


@pytest.mark.parametrize("size", [48, 64])
def test_norm(size, device, dtype):
    x, weight = draw(5, size, device=device, dtype=dtype), draw(size, device=device, dtype=dtype, seed=1)
    close(rms_norm(x, weight, 1e-5), Norm(weight, 1e-5)(x))


def test_norm_of_a_sum_leaves_the_sum_behind(device, dtype):
    x, residual = (draw(5, 48, device=device, dtype=dtype, seed=seed) for seed in (0, 1))
    weight, right = draw(48, device=device, dtype=dtype, seed=2), residual + x
    out = rms_norm(x, weight, 1e-5, residual)
    assert (residual == right).all()
    close(out, Norm(weight, 1e-5)(right))


class Rotating:
    """5 tokens of 6/2 heads (uneven blocks of heads), one of them padding, and a pool of noise."""

    def __init__(self, device, dtype, heads=6, kv_heads=2, dim=12):
        self.heads, self.kv_heads = heads, kv_heads
        self.qkv = draw(5, heads + 2 * kv_heads, dim, device=device, dtype=dtype)
        angles = draw(5, 1, dim // 2, device=device, dtype=torch.float32, seed=1)
        self.cos = torch.cat([angles.cos(), angles.cos()], -1).to(dtype)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1).to(dtype)
        self.slots = torch.tensor([7, 3, -1, 30, 0], device=device)
        self.keys, self.values = (draw(kv_heads, 32, dim, device=device, dtype=dtype, seed=seed) for seed in (2, 3))

    def right(self, norm=None):
        real, stored = self.slots >= 0, self.slots[self.slots >= 0]
        qk = self.qkv[:, : -self.kv_heads]
        if norm is not None:
            qk = Norm(norm, 1e-6)(qk)
        qk = Rotation(self.cos, self.sin, self.qkv.shape[-1] // 2).apply(qk)
        keys, values = self.keys.clone(), self.values.clone()
        keys[:, stored] = qk[real, self.heads :].transpose(0, 1)
        values[:, stored] = self.qkv[real, -self.kv_heads :].transpose(0, 1)
        return qk[:, : self.heads].contiguous(), keys, values

    def run(self, **options):
        return rotate_and_store(self.qkv, self.cos, self.sin, self.slots, self.keys, self.values, self.heads, **options)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (6, 2), (4, 1), (5, 5)])
def test_rotation_and_cache_write(heads, kv_heads, device, dtype):
    case = Rotating(device, dtype, heads, kv_heads)
    right = case.right()
    close(case.run(), right[0])
    close(case.keys, right[1])
    assert (case.values == right[2]).all()


def test_rotation_in_place_with_norms_of_queries_and_keys(device, dtype):
    case = Rotating(device, dtype)
    norm = draw(8, 12, device=device, dtype=dtype, seed=4)
    right = case.right(norm)
    out = case.run(out=case.qkv[:, :6], norm=norm, eps=1e-6)
    assert out.data_ptr() == case.qkv.data_ptr()
    eps = torch.finfo(dtype).eps
    for found, wanted in zip((out, case.keys, case.values), right, strict=True):
        # The norm's last bit may differ before the rotation mixes two numbers.
        torch.testing.assert_close(found, wanted, rtol=4 * eps, atol=4 * eps)


def test_gated_unit(device, dtype):
    gate_up = 3 * draw(4, 80, device=device, dtype=dtype)
    gate, up = gate_up.chunk(2, -1)
    close(silu_mul(gate_up), F.silu(gate) * up)

"""Linears of narrow models with what surrounds them, against the decoder's own arithmetic."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glimpse.attention.triton.narrow import Narrow, NarrowConfig
from glimpse.attention.triton.sizes import links
from glimpse.model.decoder import Norm
from glimpse.model.rope import Rotation

TOKENS, HIDDEN, INNER, HEADS, KV_HEADS, DIM = 3, 64, 192, 4, 2, 16


def draw(*shape, device, dtype, seed=0, scale=1.0):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(device, dtype)


def close(found, right):
    """Equal but for the order of sums, then rounded to the dtype a few times."""
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found, right, rtol=8 * eps, atol=16 * eps)


@pytest.fixture
def narrow(device):
    return Narrow(TOKENS, NarrowConfig(linked=links(device)))


@pytest.fixture
def x(device, dtype):
    return draw(TOKENS, HIDDEN, device=device, dtype=dtype)


@pytest.fixture
def norm(device, dtype):
    return Norm(draw(HIDDEN, device=device, dtype=dtype, seed=1), 1e-5)


def test_queries_keys_and_values(narrow, x, norm, device, dtype):
    weight = draw((HEADS + 2 * KV_HEADS) * DIM, HIDDEN, device=device, dtype=dtype, seed=2, scale=0.1)
    angles = draw(32, 1, DIM // 2, device=device, dtype=torch.float32, seed=3)
    cos, sin = torch.cat([angles.cos()] * 2, -1).to(dtype), torch.cat([-angles.sin(), angles.sin()], -1).to(dtype)
    positions, slots = torch.tensor([5, 0, 31], device=device), torch.tensor([7, -1, 2], device=device)
    keys, values = (draw(KV_HEADS, 16, DIM, device=device, dtype=dtype, seed=seed) for seed in (4, 5))
    kept = keys.clone(), values.clone()
    q = narrow.qkv(x, norm.weight, norm.eps, weight, cos, sin, positions, slots, keys, values, HEADS)
    right = F.linear(norm(x), weight).view(TOKENS, -1, DIM)
    turned = Rotation(cos[positions], sin[positions], DIM // 2).apply(right[:, : HEADS + KV_HEADS])
    close(q, turned[:, :HEADS])
    stored = [7, 2]
    close(keys[:, stored], turned[[0, 2], HEADS:].transpose(0, 1))
    close(values[:, stored], right[[0, 2], -KV_HEADS:].transpose(0, 1))
    others = [slot for slot in range(16) if slot not in stored]
    assert (keys[:, others] == kept[0][:, others]).all()
    assert (values[:, others] == kept[1][:, others]).all()


def test_gated_units(narrow, x, norm, device, dtype):
    weight = draw(2 * INNER, HIDDEN, device=device, dtype=dtype, seed=2, scale=0.1)
    gate, up = F.linear(norm(x), weight).chunk(2, -1)
    close(narrow.gated(x, norm.weight, norm.eps, weight), F.silu(gate) * up)


def test_products_are_added_to_the_residual_stream(narrow, x, device, dtype):
    inner = draw(TOKENS, INNER, device=device, dtype=dtype, seed=2)
    weight = draw(HIDDEN, INNER, device=device, dtype=dtype, seed=3, scale=0.1)
    right = x + F.linear(inner, weight)
    narrow.add(inner, weight, x)
    close(x, right)

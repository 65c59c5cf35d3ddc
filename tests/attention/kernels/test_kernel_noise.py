"""The kernels' noise against the sampler's recipe."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from glimpse.attention.triton.noise import log_exponential, noise_key
from glimpse.sampling.noise import Role, keys, log_exponential_of


@triton.jit
def _noise_kernel(
    seeds: tl.tensor, positions: tl.tensor, salts: tl.tensor, key: tl.tensor, out: tl.tensor, COUNT: tl.constexpr
):
    row = tl.program_id(0)
    k = noise_key(tl.load(seeds + row), tl.load(positions + row), tl.load(salts + row), 1)
    tl.store(key + row, k.to(tl.int64, bitcast=True))
    ids = tl.arange(0, COUNT)
    tl.store(out + row * COUNT + ids, log_exponential(k, ids))


def test_keys_are_equal_and_noise_is_but_for_last_bits(device):
    seeds = torch.tensor([0, 1, -1, -(1 << 63), 123456789012345], device=device)
    positions = torch.tensor([0, 5, 8191, 1 << 40, 77], device=device)
    salts = torch.tensor([0, 0, 3, 1 << 30, 99], device=device)
    key, out = torch.zeros_like(seeds), torch.zeros(5, 4096, device=device)
    _noise_kernel[(5,)](seeds, positions, salts, key, out, COUNT=4096)
    right = keys(seeds, positions, Role.DRAFT, salts)
    assert key.tolist() == right.tolist()
    noise = log_exponential_of(right[:, None], torch.arange(4096, device=device))
    assert (out - noise).abs().max() < 2e-6

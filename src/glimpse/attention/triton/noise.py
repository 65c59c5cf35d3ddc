"""The noise of `glimpse.sampling.noise` inside kernels: the same integers bit for bit, the logarithms nearly so."""

from __future__ import annotations

import triton
import triton.language as tl

PHI = tl.constexpr(0x9E3779B97F4A7C15)
FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
SECOND = tl.constexpr(0x94D049BB133111EB)
LARGEST_BELOW_ONE = tl.constexpr(1.0 - 2.0**-24)
ULP53 = tl.constexpr(2.0**-53)


@triton.jit
def mix(z: tl.tensor) -> tl.tensor:
    """`mix` of the recipe on uint64."""
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    return z ^ (z >> 31)


@triton.jit
def noise_key(seed: tl.tensor, position: tl.tensor, salt: tl.tensor, ROLE: tl.constexpr) -> tl.tensor:
    """`k` of the recipe, uint64, for int64 scalars."""
    k = mix(seed.to(tl.uint64) + PHI)
    k = mix((k ^ position.to(tl.uint64)) + PHI)
    word = (salt * 16 + ROLE).to(tl.uint64)
    return mix((k ^ word) + PHI)


@triton.jit
def log_exponential(key: tl.tensor, ids: tl.tensor) -> tl.tensor:
    """log E of the recipe, float32, for token `ids`; Gumbel noise is its negative."""
    h = mix(ids.to(tl.uint64) * PHI + key)
    u = ((h >> 11).to(tl.float32) + 0.5) * ULP53
    u = tl.minimum(u, LARGEST_BELOW_ONE)
    # log1p by Kahan's correction: what rounding took from 1 - u is made good by the quotient.
    rest = 1.0 - u
    lost = tl.where(rest == 1.0, 1.0, rest - 1.0)
    exponential = tl.where(rest == 1.0, u, tl.log(rest) * (u / -lost) * -1.0)
    return tl.log(exponential)

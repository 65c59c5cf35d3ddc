"""Counter-based noise: every random number is a pure function of what it is for.

There is no generator and no state. A number is keyed by (request seed, position, role, salt, token id), so a request's
draws do not depend on its neighbours, on preemption, on batching or on the length of a draft.

The integer recipe, in 64-bit two's complement with wrap-around products and logical right shifts (`>>>`), so that a
kernel can repeat it bit for bit::

    PHI = 0x9E3779B97F4A7C15   A = 0xBF58476D1CE4E5B9   B = 0x94D049BB133111EB
    mix(z):  z = (z ^ (z >>> 30)) * A;  z = (z ^ (z >>> 27)) * B;  return z ^ (z >>> 31)

    k = mix(seed + PHI)
    k = mix((k ^ position) + PHI)
    k = mix((k ^ (16 * salt + role)) + PHI)
    h = mix(k + PHI * id)                       (one call for each token id; PHI * id wraps)
    u = min((float32(h >>> 11) + 0.5) * 2^-53, 1 - 2^-24)
    Gumbel noise = -log(-log1p(-u))             (float32)

`mix` is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014, with the constants of Stafford's variant 13). `u` has 53 random bits near 0, and small `u` is where Gumbel noise
is large: its upper tail, which decides who wins, is resolved down to probabilities of 2^-53. The integers are equal on
every device; the two logarithms may differ between devices in their last bit.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_WORD = 1 << 64
_MASK64 = _WORD - 1


def to_int64(value: int) -> int:
    """The signed 64-bit integer with the same low 64 bits as `value`."""
    value &= _MASK64
    return value - _WORD if value >> 63 else value


_PHI_BITS, _A_BITS, _B_BITS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_PHI, _A, _B = to_int64(_PHI_BITS), to_int64(_A_BITS), to_int64(_B_BITS)
_ROLES = 16
_LARGEST_BELOW_ONE = 1.0 - 2.0**-24


class Role(IntEnum):
    """What a random number is for. Numbers of different roles are independent."""

    TARGET = 0
    """The target's own pick of a position; under `coupled` the draft picks with it too."""
    DRAFT = 1
    """A draft token drawn independently of the target's pick; salted, see `draft_salt`."""
    ACCEPT = 2
    """The uniform number that decides, under `rejection`, whether a draft token is accepted."""
    RESIDUAL = 3
    """The pick from the residual law after a rejection."""


def draft_salt(role: Role, committed: Tensor) -> Tensor | int:
    """The salt of a draft's noise: the committed length [N] at the start of its round under `DRAFT`, else 0.

    A position can be drafted again in a later round, after its first draft was thrown away. How long that round drafted
    may have depended on the token drawn there, so the new draft must not be drawn with the same noise: in the light of
    those decisions it would no longer be distributed as the draft's law. `TARGET` noise must stay the same, as it is
    what makes the draft agree with the target.
    """
    return committed if role is Role.DRAFT else 0


def _shifted_right(z: Tensor, bits: int) -> Tensor:
    """Logical right shift of int64 (torch's `>>` keeps the sign)."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _mix_(z: Tensor) -> Tensor:
    """`mix` of the recipe, in place."""
    z.bitwise_xor_(_shifted_right(z, 30)).mul_(_A)
    z.bitwise_xor_(_shifted_right(z, 27)).mul_(_B)
    return z.bitwise_xor_(_shifted_right(z, 31))


def keys(seeds: Tensor, positions: Tensor, role: Role, salt: Tensor | int = 0) -> Tensor:
    """[N] int64: `k` of the recipe for `seeds` [N] int64 and `positions` [N] int64; `salt` is one number or [N]."""
    k = _mix_(seeds + _PHI)
    k = _mix_((k ^ positions).add_(_PHI))
    word = salt * _ROLES + int(role)
    return _mix_((k ^ word).add_(_PHI))


def uniform_of(key: Tensor, ids: Tensor) -> Tensor:
    """float32 in (0, 1), shaped like `key` broadcast with `ids` (both int64): `u` of the recipe."""
    h = _mix_(ids * _PHI + key)
    return _shifted_right(h, 11).to(torch.float32).add_(0.5).mul_(2.0**-53).clamp_max_(_LARGEST_BELOW_ONE)


def uniform(seeds: Tensor, positions: Tensor, role: Role, salt: Tensor | int, ids: Tensor) -> Tensor:
    """Uniform noise [N, C] float32 in (0, 1) for `ids`, [C] (the same for all) or [N, C]."""
    return uniform_of(keys(seeds, positions, role, salt).unsqueeze(-1), ids)


def log_exponential_of(key: Tensor, ids: Tensor) -> Tensor:
    """log E with E = -log1p(-u) exponentially distributed; Gumbel noise is its negative."""
    return uniform_of(key, ids).neg_().log1p_().neg_().log_()


def gumbel(seeds: Tensor, positions: Tensor, role: Role, salt: Tensor | int, ids: Tensor) -> Tensor:
    """Standard Gumbel noise [N, C] float32 for `ids`, [C] or [N, C]."""
    return log_exponential_of(keys(seeds, positions, role, salt).unsqueeze(-1), ids).neg_()


def _mix_int(z: int) -> int:
    z = ((z ^ (z >> 30)) * _A_BITS) & _MASK64
    z = ((z ^ (z >> 27)) * _B_BITS) & _MASK64
    return z ^ (z >> 31)


def child_seed(seed: int, child: int) -> int:
    """The signed 64-bit seed of the `child`-th of n outputs: child 0 keeps `seed`, the others are hashed from both."""
    if child == 0:
        return to_int64(seed)
    parent = _mix_int((seed + _PHI_BITS) & _MASK64)
    return to_int64(_mix_int(((parent ^ child) + _PHI_BITS) & _MASK64))

"""Cuts the blocks that were just made, each row's by numbers that the host has sent before.

The definition is `pacing.block_rule.CutRule.length`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _cut_kernel(
    block: tl.tensor,
    rules: tl.tensor,
    bounds: tl.tensor,
    drafted: tl.tensor,
    surest: tl.tensor,
    SIZE: tl.constexpr,
    DEPTHS: tl.constexpr,
    BOUNDS: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    own = rules + row * (1 + DEPTHS * (BOUNDS + 1))
    floor = tl.load(own)
    reach, count = tl.full((), 1.0, tl.float32), tl.zeros((), tl.int32)
    for place in range(SIZE):
        said = tl.load(block + row * 2 * SIZE + SIZE + place).to(tl.float32, bitcast=True)
        sure = tl.zeros((), tl.int32)
        for index in range(BOUNDS):
            sure += (said > tl.load(bounds + index)).to(tl.int32)
        ratio = tl.load(own + 1 + tl.minimum(place, DEPTHS - 1) * (BOUNDS + 1) + sure)
        reach *= tl.minimum(said * ratio, surest)
        count += (reach >= floor).to(tl.int32)
    tl.store(drafted + row, tl.minimum(tl.load(drafted + row), count))


def cut(block: Tensor, rules: Tensor, bounds: Tensor, drafted: Tensor, depths: int, surest: float) -> None:
    """Lowers `drafted` [B] int32 to what each row's rule keeps of its block.

    `block` [B, 2 * size] int32 as `leave` writes it: tokens, then the bits of their confidences. `rules`
    [B, 1 + depths * (n + 1)] float32: the least chance that the text runs through a token, then what confidences are
    worth over what they say, by depth (of `depths`; those deeper count with the last) and by sureness, the number of
    the `bounds` [n] float32 that a confidence exceeds. No token is surer than `surest`. All contiguous.
    """
    _cut_kernel[(len(drafted),)](
        block, rules, bounds, drafted, surest, SIZE=block.shape[1] // 2, DEPTHS=depths, BOUNDS=len(bounds), num_warps=1
    )  # fmt: skip

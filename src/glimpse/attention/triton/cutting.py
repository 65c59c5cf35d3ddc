"""Cuts the blocks that were just made, each row's by numbers that the host has sent before.

The definition is `pacing.block_rule.CutRule.length`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _chance(
    said: tl.tensor, place: tl.tensor, ratios: tl.tensor, bounds: tl.tensor, least: tl.tensor, surest: tl.tensor,
    DEPTHS: tl.constexpr, BOUNDS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """What the confidence of the token at a place is worth."""
    sure = tl.zeros((), tl.int32)
    for index in range(BOUNDS):
        sure += (said > tl.load(bounds + index)).to(tl.int32)
    ratio = tl.load(ratios + tl.minimum(place, DEPTHS - 1) * (BOUNDS + 1) + sure)
    return tl.minimum(tl.maximum(said, least) * ratio, surest)


@triton.jit
def _cut_kernel(
    block: tl.tensor,
    rules: tl.tensor,
    bounds: tl.tensor,
    drafted: tl.tensor,
    least: tl.tensor,
    surest: tl.tensor,
    SIZE: tl.constexpr,
    DEPTHS: tl.constexpr,
    BOUNDS: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    own = rules + row * (2 + DEPTHS * (BOUNDS + 1))
    floor, alpha, offered = tl.load(own), tl.load(own + 1), tl.load(drafted + row)
    sureness = block + row * 2 * SIZE + SIZE
    reach, count = tl.full((), 1.0, tl.float32), tl.zeros((), tl.int32)
    for place in range(SIZE):
        said = tl.load(sureness + place).to(tl.float32, bitcast=True)
        reach *= _chance(said, place, own + 2, bounds, least, surest, DEPTHS, BOUNDS)
        count += (reach >= floor).to(tl.int32)
    worth, farthest = tl.zeros((), tl.float32), tl.full((), SIZE, tl.float32)
    for step in range(SIZE):
        place = SIZE - 1 - step
        said = tl.load(sureness + place).to(tl.float32, bitcast=True)
        chance = _chance(said, place, own + 2, bounds, least, surest, DEPTHS, BOUNDS)
        # What was not offered is worth nothing, and bounds nothing.
        worth = tl.where(place < offered, chance * (1 + worth), 0.0)
        stands = tl.floor(alpha * worth) + place + 1
        farthest = tl.minimum(farthest, tl.where((place < offered) & (alpha > 0), stands, SIZE))
    tl.store(drafted + row, tl.minimum(tl.minimum(offered, count), farthest.to(tl.int32)))


def cut(block: Tensor, rules: Tensor, bounds: Tensor, drafted: Tensor, depths: int, sure: tuple[float, float]) -> None:
    """Lowers `drafted` [B] int32, the tokens offered, to what each row's rule keeps of its block.

    `block` [B, 2 * size] int32 as `leave` writes it: tokens, then the bits of their confidences. `rules`
    [B, 2 + depths * (n + 1)] float32: the least chance that the text runs through a token, LibraSpec's alpha (0: no
    search), then what confidences are worth over what they say, by depth (of `depths`; those deeper count with the
    last) and by sureness, the number of the `bounds` [n] float32 that a confidence exceeds. No confidence counts as
    less than the first of `sure`, no chance as more than the second. All contiguous.
    """
    _cut_kernel[(len(drafted),)](
        block, rules, bounds, drafted, *sure, SIZE=block.shape[1] // 2, DEPTHS=depths, BOUNDS=len(bounds), num_warps=1
    )  # fmt: skip

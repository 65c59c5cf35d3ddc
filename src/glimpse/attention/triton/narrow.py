"""Linears of narrow models with what surrounds them: norm, product and what follows in one launch.

A model of some hundred million parameters spends its decode steps in launches and latencies, not in bytes. Here a layer
takes four launches beside its attention: norm + q/k/v + rotation + cache write, output + residual, norm + gate/up +
silu * mul, down + residual. They round where the plain decoder rounds. Linked launches (`linked`) read their weights
while the kernel before still runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glimpse.attention.triton.linked import launch_options
from glimpse.attention.triton.narrow_kernels import add_kernel, gate_kernel, qkv_kernel
from glimpse.attention.triton.sizes import padded

HELD = 200 << 10
"""Bytes of shared memory that what a program holds at once may take."""
LOOPED_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program of a launch does, and with how many warps (`tiles`)."""

    columns: int
    """Rows of the weight; a gate and its unit, or a rotary pair, count as two."""
    tokens: int = 16
    warps: int = 4
    block: int = 0
    """Columns of the inner dimension at a time; 0: all at once."""
    stages: int = 1
    """Blocks in flight."""
    sliced: bool = False
    """A slice of the inner dimension each warp; for the launches that add to the residual stream."""
    splits: int = 1
    """Programs that share the inner dimension; for the same launches."""
    early: bool = False
    """Lets the next kernel start before the one before has ended."""

    def parts(self, width: int) -> tuple[int, int]:
        """FIRST and SECOND (`tiles`) of an inner dimension of `width`."""
        if self.block:
            return self.block, -1
        return parts_of(width // self.splits, 16 * self.warps if self.sliced else 16)

    def fitting(self, width: int, size: int) -> Tile:
        """This tile, or a looped one where shared memory cannot hold all of `width` numbers of `size` bytes."""
        held = (self.columns + self.tokens) * sum(self.parts(width)) * size
        return (
            self if self.block or held <= HELD else replace(self, block=LOOPED_BLOCK, stages=4, sliced=False, splits=1)
        )


@dataclass(frozen=True, slots=True)
class NarrowConfig:
    """How launches are cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    qkv: Tile = Tile(64)
    output: Tile = Tile(16, sliced=True)
    gate: Tile = Tile(64)
    down: Tile = Tile(16, sliced=True)
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""


class Narrow:
    """The four launches for N tokens of a model whose widths are multiples of 64."""

    MOST = 64
    """Tokens beyond which separate products are faster."""

    def __init__(self, tokens: int, config: NarrowConfig, device: torch.device | str) -> None:
        self.tokens, self.config = tokens, config
        self._parts = torch.empty(1 << 20, dtype=torch.float32, device=device)
        self._arrived = torch.zeros(1 << 10, dtype=torch.int32, device=device)

    def qkv(
        self, x: Tensor, norm: Tensor, eps: float, weight: Tensor, cos: Tensor, sin: Tensor, positions: Tensor,
        slots: Tensor, keys: Tensor, values: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """Rotated queries [N, heads, head_dim] of the residual stream `x` [N, hidden]; keys and values go to the pool.

        `cos`, `sin` [width, 1, head_dim] by position; the rest as in `fused.rotate_and_store`.
        """
        kv_heads, _, dim = keys.shape
        out = torch.empty(self.tokens, heads, dim, dtype=x.dtype, device=x.device)
        grid, options = self._cut(self.config.qkv, weight, dim)
        qkv_kernel[grid](
            x, norm, weight, cos, sin, positions, slots, out, keys, values, eps, keys.stride(0), self.tokens,
            HEADS=heads, KV_HEADS=kv_heads, DIM=dim, **options,
        )  # fmt: skip
        return out

    def gated(self, x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
        """silu(gate) * up [N, inner] of the normed `x` [N, hidden]; `weight` [2 * inner, hidden], the gates first."""
        inner = weight.shape[0] // 2
        out = torch.empty(self.tokens, inner, dtype=x.dtype, device=x.device)
        grid, options = self._cut(self.config.gate, weight, inner)
        gate_kernel[grid](x, norm, weight, out, eps, self.tokens, INNER=inner, **options)
        return out

    def output(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, heads * head_dim] @ weight^T, after attention."""
        self._add(self.config.output, x, weight, residual)

    def down(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, inner] @ weight^T, after the gated units."""
        self._add(self.config.down, x, weight, residual)

    def _add(self, tile: Tile, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        hidden, width = weight.shape
        tile = tile.fitting(width, weight.element_size())
        grid, options = self._cut(tile, weight, hidden)
        add_kernel[(*grid, tile.splits)](
            x, weight, residual, self._parts, self._arrived, self.tokens, HIDDEN=hidden, SPLITS=tile.splits,
            SLICES=tile.warps if tile.sliced else 1, **options,
        )  # fmt: skip

    def _cut(self, tile: Tile, weight: Tensor, unit: int) -> tuple[tuple[int, int], dict[str, int | bool]]:
        """Grid and options of a launch over all rows of `weight`; a program's rows lie in one `unit` of them."""
        rows, width = weight.shape
        tile = tile.fitting(width, weight.element_size())
        columns = min(tile.columns, unit & -unit)
        first, second = tile.parts(width)
        return (rows // columns, -(-self.tokens // tile.tokens)), {
            "WIDTH": width, "FIRST": first, "SECOND": second, "TOKENS": tile.tokens, "COLUMNS": columns,
            "EARLY": tile.early, "num_warps": tile.warps,
            "num_stages": tile.stages, **launch_options(self.config.linked),
        }  # fmt: skip


def parts_of(width: int, least: int) -> tuple[int, int]:
    """The inner dimension as two blocks, powers of two of at least `least`; the second is 0 where one is enough."""
    whole = padded(width, least)
    if whole == width or width <= least:
        return whole, 0
    first = whole // 2
    rest = padded(width - first, least)
    return (whole, 0) if rest >= first else (first, rest)

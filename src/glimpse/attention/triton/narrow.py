"""Linears of narrow models with what surrounds them: norm, product and what follows in one launch.

A model of some hundred million parameters spends its decode steps in launches and latencies, not in bytes. Here a layer
takes four launches beside its attention: norm + q/k/v + rotation + cache write, output + residual, norm + gate/up +
silu * mul, down + residual. They round where the plain decoder rounds. Linked launches (`linked`) read their weights
while the kernel before still runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glimpse.attention.triton.fused import rms_norm
from glimpse.attention.triton.linked import launch_options
from glimpse.attention.triton.narrow_config import NarrowConfig, Tile
from glimpse.attention.triton.narrow_kernels import add_kernel, gate_kernel, qkv_kernel


class Narrow:
    """The four launches for N tokens of a model whose widths are multiples of 64.

    Its buffers must outlive a graph that it was captured in.
    """

    MOST = 640
    """Tokens beyond which separate products are faster."""

    def __init__(self, tokens: int, hidden: int, device: torch.device | str, config: NarrowConfig) -> None:
        self.tokens, self.config = tokens, config
        tiles = [tile for tile in (config.output, config.down) if tile.splits > 1]
        cells = [hidden * tile.splits * tile.tokens * self._across(tile) for tile in tiles]
        counts = [hidden // tile.columns * self._across(tile) for tile in tiles]
        self._parts = torch.empty(max(cells, default=0), dtype=torch.float32, device=device)
        self._arrived = torch.zeros(max(counts, default=0), dtype=torch.int32, device=device)

    def qkv(
        self, x: Tensor, norm: Tensor, eps: float, weight: Tensor, cos: Tensor, sin: Tensor, positions: Tensor,
        slots: Tensor, keys: Tensor, values: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """Rotated queries [N, heads, head_dim] of the residual stream `x` [N, hidden]; keys and values go to the pool.

        `cos`, `sin` [width, 1, head_dim] by position; the rest as in `fused.rotate_and_store`.
        """
        kv_heads, _, dim = keys.shape
        tile = self.config.qkv.fitting(weight)
        x = self._before(tile, x, norm, eps)
        out = torch.empty(self.tokens, heads, dim, dtype=x.dtype, device=x.device)
        grid, options = self._cut(tile, weight, dim)
        qkv_kernel[grid](
            x, norm, weight, cos, sin, positions, slots, out, keys, values, eps, keys.stride(0), self.tokens,
            HEADS=heads, KV_HEADS=kv_heads, DIM=dim, **options,
        )  # fmt: skip
        return out

    def gated(self, x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
        """silu(gate) * up [N, inner] of the normed `x` [N, hidden]; `weight` [2 * inner, hidden], the gates first."""
        inner, tile = weight.shape[0] // 2, self.config.gate.fitting(weight)
        x = self._before(tile, x, norm, eps)
        out = torch.empty(self.tokens, inner, dtype=x.dtype, device=x.device)
        grid, options = self._cut(tile, weight, inner)
        gate_kernel[grid](x, norm, weight, out, eps, self.tokens, INNER=inner, **options)
        return out

    def output(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, heads * head_dim] @ weight^T, after attention."""
        self._add(self.config.output, x, weight, residual)

    def down(self, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        """residual [N, hidden] += x [N, inner] @ weight^T, after the gated units."""
        self._add(self.config.down, x, weight, residual)

    def _add(self, tile: Tile, x: Tensor, weight: Tensor, residual: Tensor) -> None:
        tile, hidden = tile.fitting(weight), weight.shape[0]
        grid, options = self._cut(tile, weight, hidden)
        add_kernel[(*grid, tile.splits)](
            x, weight, residual, self._parts, self._arrived, self.tokens, HIDDEN=hidden, SPLITS=tile.splits,
            SLICES=tile.slices, **options,
        )  # fmt: skip

    def _before(self, tile: Tile, x: Tensor, norm: Tensor, eps: float) -> Tensor:
        """What the product reads: `x`, or its norm where the product's kernel does not compute it."""
        return rms_norm(x, norm, eps, linked=self.config.linked) if tile.block else x

    def _across(self, tile: Tile) -> int:
        return -(-self.tokens // tile.tokens)

    def _cut(self, tile: Tile, weight: Tensor, unit: int) -> tuple[tuple[int, int], dict[str, Any]]:
        """Grid and options of a launch over all rows of `weight`; a program's rows lie in one `unit` of them."""
        rows, width = weight.shape
        columns = min(tile.columns, unit & -unit)
        first, second = tile.parts(width)
        return (rows // columns, self._across(tile)), {
            "WIDTH": width, "FIRST": first, "SECOND": second, "TOKENS": tile.tokens, "COLUMNS": columns,
            "EARLY": tile.early, "num_warps": tile.warps, "num_stages": tile.stages,
            **launch_options(self.config.linked),
        }  # fmt: skip


__all__ = ["Narrow", "NarrowConfig", "Tile"]

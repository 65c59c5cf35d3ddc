"""How the launches of `narrow` are cut up, by the number of tokens: what measured best on an H200."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from glimpse.attention.triton.sizes import padded

HELD = 200 << 10
"""Bytes of shared memory that what a program holds at once may take."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program of a launch does, and with how many warps (`tiles`)."""

    columns: int
    """Rows of the weight; a gate and its unit, or a rotary pair, count as two."""
    tokens: int
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
    """Lets the next kernel start, and load its weights, before the kernel before this one has ended.

    Not all of a layer's launches may: then more and more kernels start, and fill the GPU waiting.
    """

    @property
    def slices(self) -> int:
        """Slices of the inner dimension."""
        return self.warps if self.sliced else 1

    def parts(self, width: int) -> tuple[int, int]:
        """FIRST and SECOND (`tiles`) of an inner dimension of `width`."""
        return (self.block, -1) if self.block else parts_of(width // self.splits, 16 * self.slices)

    def fitting(self, weight: Tensor) -> Tile:
        """This tile, or one without splits that do not divide a row of `weight`, or a looped one for rows too long."""
        width = weight.shape[1]
        tile = self if width % (16 * self.splits) == 0 else replace(self, splits=1)
        held = (tile.columns + tile.tokens) * sum(tile.parts(width)) * weight.element_size()
        return tile if tile.block or held <= HELD else replace(tile, block=64, stages=4, sliced=False, splits=1)


def parts_of(width: int, least: int) -> tuple[int, int]:
    """The inner dimension as two blocks, powers of two of at least `least`; the second is 0 where one is enough."""
    whole = padded(width, least)
    if whole == width or width <= least:
        return whole, 0
    first = whole // 2
    rest = padded(width - first, least)
    return (whole, 0) if rest >= first else (first, rest)


@dataclass(frozen=True, slots=True)
class NarrowConfig:
    """The tiles of a layer's launches. They change the time and, by rounding, the last bits; never what is computed."""

    qkv: Tile
    output: Tile
    gate: Tile
    down: Tile
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""

    @classmethod
    def fit(cls, tokens: int, linked: bool) -> NarrowConfig:
        """For `tokens` tokens."""
        fitting = (config for most, config in MEASURED if tokens <= most)
        return replace(next(fitting, MEASURED[-1][1]), linked=linked)

    @classmethod
    def bitwise(cls, tokens: int, linked: bool) -> NarrowConfig:
        """For `tokens` tokens, each of whose results is the same bits whatever the number.

        The inner dimension is taken in one order, by one instruction of the matrix units; norms are launches of their
        own, one program a token.
        """
        tile = Tile(64, min(max(padded(tokens, 16), 16), 64), block=64, stages=4)
        return cls(tile, tile, tile, tile, linked)


MEASURED = [
    (8, NarrowConfig(
        Tile(64, 8), Tile(64, 8, early=True), Tile(64, 8), Tile(16, 8, sliced=True, early=True),
    )),
    (16, NarrowConfig(
        Tile(64, 16), Tile(64, 16, early=True), Tile(64, 16), Tile(16, 16, sliced=True, early=True),
    )),
    (32, NarrowConfig(Tile(64, 16), Tile(64, 32), Tile(64, 32), Tile(64, 16, splits=3, early=True))),
    (96, NarrowConfig(
        Tile(64, 32), Tile(64, 16, block=64, stages=9), Tile(64, 32, early=True), Tile(64, 32, splits=3),
    )),
    (192, NarrowConfig(
        Tile(64, 16), Tile(64, 16, early=True), Tile(64, 32, early=True), Tile(64, 32, splits=3),
    )),
    (384, NarrowConfig(
        Tile(64, 16, early=True), Tile(64, 16, early=True), Tile(128, 64, 8, block=64, stages=4),
        Tile(64, 32, block=128, stages=5, early=True),
    )),
    (640, NarrowConfig(
        Tile(64, 32, block=64, stages=7), Tile(64, 64, block=64, stages=7, early=True),
        Tile(64, 128, block=64, stages=4), Tile(64, 32, block=64, stages=7),
    )),
]  # fmt: skip
"""By the number of tokens up to which they serve (benchmarks/gpu_narrow_tiles.py, docs/performance-gpu.md)."""

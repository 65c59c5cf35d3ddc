"""Which tiles suit the bitwise mode, and do they keep its bits? Random weights of two models' shapes; no checkpoint.

    PYTHONPATH=src:. python3 -m benchmarks.gpu_bitwise_tiles --seconds 60

For the products of a layer and several numbers of tokens: microseconds of one launch, in a graph of several on
weights of their own, for every tile, beside cuBLAS. A tile is marked where the first tokens' results are not the bits
that they have alone, by the tile of few tokens: such a tile cannot be taken.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.triton.narrow import Narrow, NarrowConfig, Tile
from glimpse.bench.clock import graph_seconds

SHAPES = {
    "demo": [(960, 576), (576, 576), (3072, 576), (576, 1536)],
    "8B": [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)],
}
"""Rows and columns of the weights: q/k/v, output, gate and up, down."""
TOKENS = (64, 128, 512, 1024)
TILES = [
    Tile(columns, tokens, warps, 64, stages)
    for columns, tokens, warps, stages in (
        (64, 64, 4, 4), (64, 128, 4, 4), (64, 128, 4, 3), (64, 256, 4, 3), (128, 64, 8, 4), (128, 64, 4, 4),
        (128, 128, 8, 4), (128, 128, 8, 3), (128, 256, 8, 3),
    )
]  # fmt: skip
ALONE = Tile(64, 16, block=64, stages=4)
FEW = 3
"""Tokens whose bits are compared."""


def narrow_of(tokens: int, rows: int, tile: Tile, device: str) -> Narrow:
    """Launches that are all cut alike."""
    config = replace(NarrowConfig.bitwise(tokens, linked=False), output=tile)
    return Narrow(tokens, rows, device, config)


def result(x: Tensor, weight: Tensor, tile: Tile) -> Tensor:
    """[N, rows]: x @ weight^T, rounded."""
    found = torch.zeros(len(x), len(weight), dtype=x.dtype, device=x.device)
    narrow_of(len(x), len(weight), tile, str(x.device)).output(x, weight, found)
    return found


def keeps(x: Tensor, weight: Tensor, tile: Tile) -> bool:
    """Whether the first tokens come to the bits that they have alone."""
    return torch.equal(result(x, weight, tile)[:FEW], result(x[:FEW].contiguous(), weight, ALONE))


def measure(name: str, rows: int, width: int, tokens: int, device: str) -> str:
    """One line: every tile's time, the best first."""
    copies = max(1, min(30, (1 << 28) // (rows * width * 2)))
    weights = torch.randn(copies, rows, width, dtype=torch.bfloat16, device=device) * width**-0.5
    x, into = (
        torch.randn(tokens, width, dtype=torch.bfloat16, device=device),
        torch.zeros(tokens, rows, dtype=torch.bfloat16, device=device),
    )
    times = []
    for tile in (tile for tile in TILES if tile.tokens <= max(64, tokens)):
        narrow = narrow_of(tokens, rows, tile, device)
        try:
            seconds = graph_seconds([partial(narrow.output, x, weight, into) for weight in weights], least=4e-3)
            times.append((seconds, tile, keeps(x, weights[0], tile)))
        except Exception as problem:  # out of shared memory, or what Triton cannot compile: the next tile
            print(f"  {key(tile)}: {type(problem).__name__}: {str(problem)[-100:]}", flush=True)
    cublas = graph_seconds([partial(F.linear, x, weight) for weight in weights], least=4e-3)
    shown = " | ".join(
        f"{1e6 * s:.1f} {key(t)}{'' if same else ' OTHER BITS'}" for s, t, same in sorted(times, key=first)
    )
    return f"{name} {rows}x{width}, {tokens} tokens: cuBLAS {1e6 * cublas:.1f} | {shown}"


def first(row: tuple[float, Tile, bool]) -> float:
    """What is sorted by."""
    return row[0]


def key(tile: Tile) -> str:
    """columns x tokens, warps, stages."""
    return f"{tile.columns}x{tile.tokens}w{tile.warps}s{tile.stages}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="begin no product after this")
    options, begun = parser.parse_args(), time.perf_counter()
    for tokens in TOKENS:
        for name, shapes in SHAPES.items():
            for rows, width in shapes:
                if time.perf_counter() - begun < options.seconds:
                    with torch.inference_mode():
                        print(measure(name, rows, width, tokens, "cuda"), flush=True)


if __name__ == "__main__":
    main()

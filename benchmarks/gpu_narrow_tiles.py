"""Which tiles suit the narrow launches? Random weights of the demo model's shape; needs no checkpoint.

    PYTHONPATH=src python3 benchmarks/gpu_narrow_tiles.py --tokens 1,8,64 --seconds 120

For every launch and number of tokens: microseconds of one launch, in a graph of one a layer on weights of its own,
for every tile; then whole layers, with draft attention for up to 256 tokens, of the best tiles, against cuBLAS with
separate kernels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.attention.triton.narrow import Narrow, NarrowConfig, Tile
from glimpse.attention.triton.narrow_config import MEASURED
from glimpse.attention.triton.recalled import Recalled
from glimpse.bench.clock import graph_seconds

HIDDEN, INNER, HEADS, KV_HEADS, DIM, LAYERS, POSITIONS = 576, 1536, 9, 3, 64, 30, 1024
MOST_ROWS, BUDGET, EPS = 256, 512, 1e-5
Times = tuple[float, float, Tile]
KINDS = ("qkv", "output", "gate", "down")
WHOLE = [Tile(64, 8), Tile(64, 16), Tile(64, 32)]
WIDE = [Tile(128, 16, 8), Tile(128, 32, 8)]
SLICED = [Tile(16, 8, sliced=True), Tile(16, 16, sliced=True)]
SPLIT = [Tile(64, tokens, splits=splits) for splits in (2, 3) for tokens in (8, 16, 32, 64)]
LOOPED = [Tile(64, t, 4, b, s) for t, b, s in ((16, 64, 9), (32, 64, 7), (32, 128, 5), (64, 64, 4), (64, 64, 7))]
BROAD = [Tile(128, 64, 4, 64, 4), Tile(128, 64, 8, 64, 4), Tile(128, 128, 8, 64, 3)]
BROAD_PAIRS = [Tile(64, 128, 4, 64, 4), Tile(64, 128, 8, 64, 4)]
OF_KIND = {
    "qkv": WHOLE + LOOPED + BROAD_PAIRS, "gate": WHOLE + WIDE + LOOPED + BROAD + BROAD_PAIRS,
    "output": WHOLE + SLICED[:1] + LOOPED, "down": SLICED + SPLIT + LOOPED,
}  # fmt: skip


def tiles(kind: str, tokens: int) -> Iterator[Tile]:
    """What to try."""
    for tile in OF_KIND[kind]:
        divides = kind == "down" or not tile.block or HIDDEN % tile.block == 0
        if divides and max(8, tokens // 24) <= tile.tokens <= 2 * max(tokens, 8):
            yield tile


@dataclass
class Model:
    """Weights of all layers and what N tokens need."""

    tokens: int
    layers: int = LAYERS

    def __post_init__(self) -> None:
        make: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}

        def weight(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(self.layers, rows, columns, **make) * columns**-0.5

        self.weights = {
            "qkv": weight((HEADS + 2 * KV_HEADS) * DIM, HIDDEN), "output": weight(HIDDEN, HEADS * DIM),
            "gate": weight(2 * INNER, HIDDEN), "down": weight(HIDDEN, INNER),
        }  # fmt: skip
        self.norm = torch.randn(self.layers, HIDDEN, **make)
        self.x, self.residual = torch.randn(2, self.tokens, HIDDEN, **make).unbind()
        self.inner = torch.randn(self.tokens, INNER, **make)
        angle = torch.rand(POSITIONS, 1, DIM // 2, device="cuda") * 6
        self.cos = torch.cat([angle.cos()] * 2, -1).bfloat16()
        self.sin = torch.cat([-angle.sin(), angle.sin()], -1).bfloat16()
        self.positions = torch.randint(0, POSITIONS, (self.tokens,), device="cuda")
        slots = min(self.tokens, MOST_ROWS) * POSITIONS
        self.slots = torch.randperm(slots, device="cuda")[: self.tokens]
        self.keys, self.values = torch.randn(2, self.layers, KV_HEADS, slots, DIM, **make).unbind()
        self.attention = self._attention() if self.tokens <= MOST_ROWS else None

    def _attention(self) -> Callable[[torch.Tensor, int], torch.Tensor]:
        """Draft attention of rows that read BUDGET positions of POSITIONS each."""
        rows = self.tokens
        ints: dict[str, Any] = {"dtype": torch.int32, "device": "cuda"}
        recalled = Recalled(HeadShape(HEADS, KV_HEADS, DIM), rows, 16, "cuda")
        table = torch.arange(rows * POSITIONS // 16, **ints).view(rows, -1)
        chosen = torch.rand(rows, KV_HEADS, POSITIONS - 1, device="cuda").topk(BUDGET).indices.sort().values
        selected = (chosen + torch.arange(rows, device="cuda")[:, None, None] * POSITIONS).int()
        counts, bases = torch.full((rows,), BUDGET, **ints), torch.full((rows,), POSITIONS - 1, **ints)
        read = (selected, counts, bases, bases + 1, table)
        return lambda q, layer: recalled(q, self.keys[layer], self.values[layer], *read)

    def launch(self, kind: str, layer: int, narrow: Narrow) -> torch.Tensor:
        """One launch; what it wrote."""
        weight, norm = self.weights[kind][layer], self.norm[layer]
        if kind == "qkv":
            rotation = self.cos, self.sin, self.positions, self.slots, self.keys[layer], self.values[layer]
            return narrow.qkv(self.x, norm, EPS, weight, *rotation, HEADS)
        if kind == "gate":
            return narrow.gated(self.x, norm, EPS, weight)
        (narrow.output if kind == "output" else narrow.down)(self.source(kind), weight, self.residual)
        return self.residual

    def source(self, kind: str) -> torch.Tensor:
        """The input of a product that is added to the residual stream."""
        return self.x if kind == "output" else self.inner

    def right(self, kind: str, layer: int) -> torch.Tensor:
        """The same in float64, but for the rounding of the norm's output; of the queries only the values' part."""
        weight, x = self.weights[kind][layer].double(), self.x.double()
        if kind in ("output", "down"):
            return self.residual.double() + self.source(kind).double() @ weight.T
        normed = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)).bfloat16() * self.norm[layer]
        product = normed.double() @ weight.T
        if kind == "gate":
            gate, up = product.chunk(2, -1)
            return F.silu(gate) * up
        return product.view(self.tokens, -1, DIM)[:, -KV_HEADS:]

    def error(self, kind: str, narrow: Narrow) -> float:
        """Norm of the difference over the norm."""
        right = self.right(kind, 1)
        found = self.launch(kind, 1, narrow)
        if kind == "qkv":
            found = self.values[1][:, self.slots].transpose(0, 1)
        return float((found.double() - right).norm() / right.norm())

    def layer(self, index: int, narrow: Narrow) -> None:
        """A whole layer; without attention, the queries stand for what it would give."""
        weights, norm = {kind: weight[index] for kind, weight in self.weights.items()}, self.norm[index]
        rotation = self.cos, self.sin, self.positions, self.slots, self.keys[index], self.values[index]
        q = narrow.qkv(self.residual, norm, EPS, weights["qkv"], *rotation, HEADS)
        q = self.attention(q, index) if self.attention else q
        narrow.output(q.flatten(1), weights["output"], self.residual)
        narrow.down(narrow.gated(self.residual, norm, EPS, weights["gate"]), weights["down"], self.residual)

    def separate(self, index: int) -> None:
        """The same by cuBLAS, and kernels between."""
        weights, norm = {kind: weight[index] for kind, weight in self.weights.items()}, self.norm[index]
        x = rms_norm(self.x, norm, EPS, self.residual)
        qkv = F.linear(x, weights["qkv"]).view(self.tokens, -1, DIM)
        rotation = self.cos, self.sin, self.slots, self.keys[index], self.values[index]
        q = rotate_and_store(qkv, *rotation, HEADS, positions=self.positions)
        q = self.attention(q, index) if self.attention else q
        x = rms_norm(F.linear(q.flatten(1), weights["output"]), norm, EPS, self.residual)
        units = silu_mul(F.linear(x, weights["gate"]))
        torch.matmul(units, weights["down"].T, out=self.x)


def made(tokens: int, config: NarrowConfig) -> Narrow:
    """The launches of such a cut."""
    return Narrow(tokens, HIDDEN, "cuda", config)


def having(config: NarrowConfig, tiles: dict[str, Any]) -> NarrowConfig:
    """The cut with some launches' tiles exchanged."""
    return replace(config, **tiles)


def microseconds(calls: list[Callable[[], object]]) -> float:
    """Of one call."""
    return graph_seconds(calls, least=4e-3) * 1e6


def compile_all(work: list[tuple[str, Tile]]) -> None:
    """Fills Triton's cache, in a process of its own."""
    model = Model(1, 2)
    for kind, tile in work:
        try:
            model.launch(kind, 0, made(1, having(NarrowConfig.fit(1, linked=True), {kind: tile})))
        except Exception as error:
            print(f"  {kind} {tile}: {type(error).__name__}: {str(error)[:100]}", flush=True)


def measure(tokens: int) -> dict[str, Any]:
    """All tiles of all launches for one number of tokens, and whole layers."""
    model, best, found, tried = Model(tokens), NarrowConfig.fit(tokens, linked=True), {}, {}
    for kind in KINDS:
        tried[kind] = times = sorted(times_of(model, kind, best), key=lambda row: row[0])
        best = having(best, {kind: times[0][2]})
        source = model.inner if kind == "down" else model.x
        cublas = microseconds([partial(F.linear, source, weight) for weight in model.weights[kind]])
        found[kind] = {"cublas": cublas, "tiles": [(us, err, asdict(tile)) for us, err, tile in times]}
        shown = " | ".join(f"{us:.2f} {key(tile)}" for us, _, tile in times[:4])
        worst = max(err for _, err, _ in times)
        print(f"N={tokens} {kind}: cublas alone {cublas:.2f} | {shown} | worst error {worst:.1e}", flush=True)
    whole, best = refined(model, best, tried)
    model.residual.normal_()
    apart = microseconds([partial(model.separate, i) for i in range(LAYERS)])
    shown = " ".join(f"{kind} {key(getattr(best, kind))}" for kind in KINDS)
    print(
        f"N={tokens}: a layer {whole:.2f} us narrow ({shown}), separate {apart:.2f} us",
        flush=True,
    )
    return found | {"layer": whole, "separate": apart, "best": asdict(best)}


def times_of(model: Model, kind: str, config: NarrowConfig) -> Iterator[Times]:
    """Every tile that runs."""
    for tile in tiles(kind, model.tokens):
        narrow = made(model.tokens, having(config, {kind: tile}))
        try:
            model.residual.normal_()
            error = model.error(kind, narrow)
            yield microseconds([partial(model.launch, kind, i, narrow) for i in range(LAYERS)]), error, tile
        except Exception as problem:
            print(f"  {kind} {key(tile)}: {type(problem).__name__}: {str(problem)[-100:]}", flush=True)


def refined(model: Model, best: NarrowConfig, tried: dict[str, list[Times]]) -> tuple[float, NarrowConfig]:
    """A whole layer's time: what is fastest alone may leave the next launch no room to start early."""
    least = layer_time(model, best)
    print(f"  alone best: a layer {least:.2f} us", flush=True)
    for kind in KINDS:
        for _, _, tile in tried[kind][1:5]:
            least, best = better(model, having(best, {kind: tile}), least, best)
    print(f"  refined: {least:.2f} us", flush=True)
    timed = [(layer_time(model, config), config) for config in early_releases(best)]
    timed.sort(key=lambda row: row[0])
    for us, config in timed[:3]:
        print(f"  early {[kind for kind in KINDS if getattr(config, kind).early]}: {us:.2f} us", flush=True)
    return timed[0]


def early_releases(config: NarrowConfig) -> Iterator[NarrowConfig]:
    """Every choice of launches that let the next one start early."""
    for chosen in itertools.product((False, True), repeat=len(KINDS)):
        tiles = {kind: replace(getattr(config, kind), early=early) for kind, early in zip(KINDS, chosen, strict=True)}
        yield having(config, tiles)


def better(model: Model, config: NarrowConfig, least: float, best: NarrowConfig) -> tuple[float, NarrowConfig]:
    """The faster of two."""
    time = layer_time(model, config)
    return (time, config) if time < least else (least, best)


def layer_time(model: Model, config: NarrowConfig) -> float:
    """Microseconds of a layer without its attention."""
    model.residual.normal_()
    narrow = made(model.tokens, config)
    return microseconds([partial(model.layer, i, narrow) for i in range(LAYERS)])


def key(tile: Tile) -> str:
    """columns x tokens, warps, and the blocks if there are any, - for slices, / the splits, ! early."""
    kind = f"b{tile.block}s{tile.stages}" if tile.block else "-" * tile.sliced
    kind += f"/{tile.splits}" * (tile.splits > 1) + "!" * tile.early
    return f"{tile.columns}x{tile.tokens}w{tile.warps}{kind}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="1,8,16,32,64,128,256,576")
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    sizes, begun = [int(size) for size in options.tokens.split(",")], time.perf_counter()
    tried = {(kind, tile) for kind in KINDS for size in sizes for tile in tiles(kind, size)}
    tried |= {(kind, replace(tile, early=True)) for kind, tile in tried}
    tried |= {(kind, getattr(config, kind)) for kind in KINDS for _, config in MEASURED}
    work = sorted(tried, key=str)
    workers = min(14, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_all, [work[start::workers] for start in range(workers)]))
    print(f"compiled {len(work)} kernels in {time.perf_counter() - begun:.0f} s", flush=True)
    found = {}
    for size in sizes:
        if time.perf_counter() - begun > options.seconds:
            print(f"no time for N={size}", flush=True)
            continue
        with torch.inference_mode():
            found[size] = measure(size)
        (Path(os.environ.get("OUT", ".")) / "narrow_tiles.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

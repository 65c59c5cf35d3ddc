"""Are the Triton kernels right on this GPU, and how far from the floor? Ends by itself; results in $OUT.

    PYTHONPATH=src python3 benchmarks/gpu_kernels.py --seconds 420

Checks every kernel against its definition, times it with default settings, then tries other settings, cell after cell,
until the time is up. A floor is the bytes that must move over the bandwidth of a large copy measured in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gpu_kernel_cases as cases
import gpu_kernel_checks as checks
import torch
import triton

from glimpse.attention.triton.attention import PagedConfig
from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.attention.triton.picking import SampleConfig
from glimpse.attention.triton.recalled import RecalledConfig
from glimpse.attention.triton.select import Selection
from glimpse.bench.clock import copy_bandwidth, graph_seconds

KINDS = [(1, False, False), (8, False, False), (8, True, False), (9, False, False), (9, True, False),
         (16, False, True), (64, False, True)]  # fmt: skip
"""Queries, importance, tree."""
DRAFTING = [("1.7b", 32), ("1.7b", 16), ("135m", 1), ("135m", 8), ("135m", 64), ("8b", 1), ("8b", 8), ("8b", 64)]
"""Models and rows that draft."""
SIZES = [(1, 8192), (1, 32768), (8, 8192), (16, 32768), (64, 8192)]
PAGED = [PagedConfig(block=b, warps=w, stages=s, waves=v)
         for b, w, s, v in itertools.product((32, 64, 128), (1, 2, 4), (3, 5), (2.0, 4.0, 8.0))]  # fmt: skip
RECALLED = [RecalledConfig(block=b, pieces=p, warps=w, stages=s)
            for b, p, w, s in itertools.product((32, 64, 128), (1, 2, 4, 8, 16), (1, 2, 4), (3, 5))]  # fmt: skip
SELECT = [Selection(cases.PAGE, resident=r, warps=w) for r, w in itertools.product((0, 16384), (4, 8))]
SAMPLE = [SampleConfig(group=g, groups=4096 // g, tile=t, warps=w)
          for g, t, w in itertools.product((32, 64, 256), (2048, 4096), (4, 8))]  # fmt: skip

Calls = list[Callable[[], object]]


@dataclass
class Timed:
    """One cell: what is timed, in which settings, and what it must move."""

    name: str
    floor_bytes: int
    calls: Callable[[Any], Calls]
    default: Any
    grid: list[Any]
    seconds: dict[str, float] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)

    def time(self, config: Any) -> None:
        """Times one setting; one that does not fit the machine is noted and passed over."""
        key = str(config)
        try:
            self.seconds[key] = graph_seconds(self.calls(config))
            self.configs[key] = asdict(config) if config is not None else None
        except Exception as error:
            print(f"  {self.name}: {key}: {type(error).__name__}: {str(error)[:120]}", flush=True)

    def result(self, bandwidth: float) -> dict[str, Any]:
        """Default and best times in microseconds, and their ratio to the floor."""
        floor = self.floor_bytes / bandwidth
        best = min(self.seconds, key=lambda key: self.seconds[key], default=None)
        default = self.seconds.get(str(self.default))
        return {
            "name": self.name, "floor_us": floor * 1e6, "default_us": default and default * 1e6,
            "default_ratio": default and default / floor, "best_us": best and self.seconds[best] * 1e6,
            "best_ratio": best and self.seconds[best] / floor, "best": best and self.configs[best],
            "tried": len(self.seconds), "all_us": {key: value * 1e6 for key, value in self.seconds.items()},
        }  # fmt: skip


def paged_cells() -> Iterator[list[Timed]]:
    """Groups of cells: decode, verify, verify with importance, trees."""
    for (batch, length), model in itertools.product(SIZES, cases.SHAPES):
        group = []
        for queries, importance, tree in KINDS:
            cell = cases.Cell(model, batch, length, queries)
            name = f"paged {model} {batch}x{length} n={queries}{' importance' * importance}{' tree' * tree}"
            bits = cases.tree_bits(batch, queries) if tree else None
            calls = partial(cell.paged_calls, importance=importance, tree=bits)
            group.append(Timed(name, cell.floor_bytes(importance), calls, None, PAGED))
        yield group


def recalled_cells() -> Iterator[list[Timed]]:
    for model, batch in DRAFTING:
        cell = cases.Cell(model, batch, 8192, layers=8)
        group = []
        for budget in (512, 820):
            selected, counts = cell.recall_sets(budget)
            calls = partial(cell.recalled_calls, selected=selected, counts=counts)
            floor = cases.recalled_bytes(cell.shape, batch, budget)
            group.append(Timed(f"recalled {model} {batch}x8192 B={budget}", floor, calls, None, RECALLED))
        yield group


def select_cells() -> Iterator[list[Timed]]:
    for model, rows, length, budget in (("135m", 64, 8192, 512), ("135m", 64, 8192, 820), ("8b", 16, 32768, 512)):
        cell = cases.SelectCell(model, rows, length, budget)
        group = []
        for running in (False, True):
            name = f"select {model} {rows}x{length} B={budget}{' running' if running else ''}"
            calls = lambda config, c=cell, r=running: [c.call(config, r)]  # noqa: E731
            group.append(Timed(name, cell.floor_bytes(running), calls, Selection(cases.PAGE), SELECT))
        yield group


def sample_cells() -> Iterator[list[Timed]]:
    for rows, dtype, law in itertools.product((64, 576), (torch.float32, torch.bfloat16), cases.LAWS):
        calls = lambda config, r=rows, d=dtype, name=law: [cases.sample_call(r, 49152, d, name, config)]  # noqa: E731
        name = f"sample {rows}x49152 {str(dtype)[6:]} {law}"
        yield [Timed(name, rows * 49152 * dtype.itemsize, calls, SampleConfig(), SAMPLE)]


def fused_cells() -> Iterator[list[Timed]]:
    """No settings to try: norm, rotation and gate of one layer."""
    for model, (hidden, inner) in {"8b": (4096, 14336), "135m": (576, 1536)}.items():
        shape = cases.SHAPES[model]
        for rows in (1, 64, 576):
            every = shape.heads + 2 * shape.kv_heads
            options: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cuda"}
            x, wide = torch.randn(rows, hidden, **options), torch.randn(rows, 2 * inner, **options)
            qkv, cos = (
                torch.randn(rows, every, shape.head_dim, **options),
                torch.randn(rows, 1, shape.head_dim, **options),
            )
            pool, slots = (
                torch.zeros(shape.kv_heads, 4096, shape.head_dim, **options),
                torch.arange(rows, device="cuda"),
            )
            out, total, normed = torch.empty_like(qkv[:, : shape.heads]), torch.zeros_like(x), torch.empty_like(x)
            runs = {
                "norm": (lambda x=x, r=total, y=normed: rms_norm(x, x[0], 1e-5, r, y), 8 * x.numel()),
                "rotate": (lambda q=qkv, c=cos, s=slots, p=pool, o=out, h=shape.heads:
                           rotate_and_store(q, c, c, s, p, p, h, out=o), 4 * qkv.numel()),
                "gate": (lambda w=wide: silu_mul(w), 3 * wide.numel()),
            }  # fmt: skip
            yield [Timed(f"{name} {model} {rows}", size, lambda _, run=run: [run], None, [])
                   for name, (run, size) in runs.items()]  # fmt: skip


FAMILIES: dict[str, Callable[[], Iterator[list[Timed]]]] = {
    "fused": fused_cells, "recalled": recalled_cells, "select": select_cells, "sample": sample_cells,
    "paged": paged_cells,
}  # fmt: skip


def compile_one(job: tuple[Any, ...]) -> None:
    """Compiles one setting's kernels into Triton's cache by running them on a small batch."""
    model, queries, importance, tree, config = job
    try:
        cell = cases.Cell(model, 1, 256, queries, layers=2)
        if isinstance(config, PagedConfig):
            calls = cell.paged_calls(config, importance, cases.tree_bits(1, queries) if tree else None)
        else:
            calls = cell.recalled_calls(config, *cell.recall_sets(64))
        calls[0]()
        torch.cuda.synchronize()
    except Exception as error:
        print(f"  not compiled: {job}: {type(error).__name__}", flush=True)


def compile_ahead(families: list[str], workers: int) -> None:
    """Compiles the grids of the attention kernels among them, many at a time; the others take few settings."""
    jobs: list[tuple[Any, ...]] = []
    if "paged" in families:
        once = [config for config in PAGED if config.waves == 2.0]
        jobs += [(model, *kind, config) for model in cases.SHAPES for config in once for kind in KINDS]
    if "recalled" in families:
        jobs += [(model, 1, False, False, config) for model in cases.SHAPES for config in RECALLED]
    if not jobs:
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_one, jobs, chunksize=4))


def run_checks() -> list[dict[str, Any]]:
    """Runs every check; a check that raises is a failed one."""
    results = []
    for check in checks.every():
        try:
            for what, figure, limit in check():
                results.append({"what": what, "figure": figure, "limit": limit, "ok": figure <= limit})
        except Exception as error:
            traceback.print_exc(limit=4)
            results.append({"what": str(error)[:200], "figure": None, "limit": None, "ok": False})
    for result in results:
        print("ok  " if result["ok"] else "WRONG", result["what"], result["figure"], "<=", result["limit"], flush=True)
    return results


def run_family(name: str, share: float, bandwidth: float) -> list[dict[str, Any]]:
    """Times a family of cells: defaults first, then the grid while this group's share of the time lasts."""
    results, groups = [], FAMILIES[name]()
    for group in groups:
        begin = time.perf_counter()
        for cell in group:
            cell.time(cell.default)
        # In an order that tries something of everything first.
        order = random.Random(0).sample(range(len(group[0].grid)), len(group[0].grid))
        for index, cell in itertools.product(order, group):
            if time.perf_counter() - begin > share:
                break
            if cell.grid[index] != cell.default:
                cell.time(cell.grid[index])
        for cell in group:
            results.append(cell.result(bandwidth))
            show(results[-1])
        del group
        torch.cuda.empty_cache()
    return results


def show(result: dict[str, Any]) -> None:
    """One line a cell."""
    figures = " ".join(f"{key} {result[key]:9.2f}" if result[key] else f"{key} -" for key in (
        "floor_us", "default_us", "default_ratio", "best_us", "best_ratio"))  # fmt: skip
    print(f"{result['name']:44} {figures} tried {result['tried']} {result['best']}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=420, help="stop trying settings after about this long")
    parser.add_argument("--families", default=",".join(FAMILIES), help="which kernels to time")
    parser.add_argument("--no-checks", action="store_true", help="only time")
    parser.add_argument("--workers", type=int, default=12, help="processes that compile")
    arguments = parser.parse_args()
    begin, wrong = time.perf_counter(), 0
    folder = Path(os.environ.get("OUT", "."))
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
        "copy_bandwidth": copy_bandwidth(),
    }  # fmt: skip
    print(f"{report['device']}: copy {report['copy_bandwidth'] / 1e12:.2f} TB/s", flush=True)
    if not arguments.no_checks:
        report["checks"] = run_checks()
        wrong = sum(not result["ok"] for result in report["checks"])
    print(f"checked after {time.perf_counter() - begin:.0f} s", flush=True)
    names = arguments.families.split(",")
    compile_ahead(names, arguments.workers)
    print(f"compiled after {time.perf_counter() - begin:.0f} s", flush=True)
    groups = {"fused": 6, "recalled": len(DRAFTING), "select": 3, "sample": 16, "paged": 10}
    for place, name in enumerate(names):
        left = arguments.seconds - (time.perf_counter() - begin)
        # Paged cells are worth three times the others' share.
        weights = [groups[other] * (3 if other == "paged" else 1) for other in names[place:] if other != "fused"]
        share = left / max(1, sum(weights)) * (3 if name == "paged" else 1)
        report[name] = run_family(name, share, report["copy_bandwidth"])
        (folder / "gpu_kernels.json").write_text(json.dumps(report, indent=1))
    (folder / "gpu_kernels.json").write_text(json.dumps(report, indent=1))
    print(f"{wrong} checks failed; {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

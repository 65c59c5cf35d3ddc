"""Where the time of plain, draft and verify steps goes on a GPU: kernels by name, and what lies between them.

    PYTHONPATH=src python3 benchmarks/gpu_profile.py --model demo.gguf --ids ids.npz --cells 8000x64:4+8

Prints, for each step, the time of a replay by events, the sum over its kernels, and the kernels by share.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from glimpse.bench.clock import copy_bandwidth, event_seconds
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape, parse_cell

REPEATS = 4
SHOWN = 16
ROOM = 180


def kernels(step: Callable[[], None]) -> list[tuple[str, int, float]]:
    """(name, launches a step, microseconds a step) of every kernel, the most expensive first."""
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(REPEATS):
            step()
        torch.cuda.synchronize()
    count: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for event in record.events():
        name = str(event.name)[:90]
        count[name] += 1
        spent[name] += event.device_time_total
    return [(name, count[name] // REPEATS, time / REPEATS) for name, time in spent.most_common()]


def steps_of(cell: DeviceCell, gammas: list[int]) -> dict[str, Callable[[], None]]:
    """The steps by name; every one rewinds first, which is left out of their times by hand."""
    rounds = cell.batch.rounds
    steps: dict[str, Callable[[], None]] = {"plain": rounds.plain, "draft": lambda: rounds.draft(1)}
    for gamma in gammas:
        steps[f"verify {gamma}"] = lambda gamma=gamma: rounds.verify(gamma)  # type: ignore[misc]
    return steps


def measure(cell: DeviceCell, gammas: list[int]) -> dict[str, Any]:
    """Times and kernels of every step of one cell."""
    found = {}
    for name, step in steps_of(cell, gammas).items():
        cell.batch.rewind()
        step()
        cell.batch.rewind()
        seconds = event_seconds(step, 8)
        cell.batch.rewind()
        rows = kernels(step)
        found[name] = {"us": seconds * 1e6, "kernels": rows}
        total = sum(row[2] for row in rows)
        print(f"-- {name}: {seconds * 1e6:.0f} us, kernels {total:.0f} us in {sum(row[1] for row in rows)} launches")
        for kernel, count, spent in rows[:SHOWN]:
            print(f"   {spent:8.1f} us {count:5d} x {spent / max(count, 1):7.2f}  {kernel[:80]}")
    return found


def opened(shape: CellShape, models: Models, text: Text, budget: int) -> DeviceCell:
    """The cell, its prompts read."""
    checkpoint = models.open(shape, shape.context + ROOM)
    prompts = text.prompts(checkpoint.tokenizer, shape.context, shape.rows)
    return DeviceCell(checkpoint, prompts, budget, ROOM - 50, max(shape.drafts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", required=True)
    parser.add_argument("--budget", type=int, default=512)
    options = parser.parse_args()
    models, text = Models(torch.bfloat16, torch.device("cuda")), Text(ids=options.ids)
    print(f"copy {copy_bandwidth() / 1e12:.2f} TB/s", flush=True)
    found = {}
    for shape in (parse_cell(name, options.model, (4, 8)) for name in options.cells.split(",")):
        print(f"==== {shape.name}", flush=True)
        with torch.inference_mode():
            cell = opened(shape, models, text, options.budget)
            found[shape.key] = measure(cell, list(shape.drafts))
        cell.close()
    (Path(os.environ.get("OUT", ".")) / "profile.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

"""What the narrow launches save: steps of the demo model with them and with the separate products.

    PYTHONPATH=src python3 benchmarks/gpu_narrow.py --model demo.gguf --ids ids.npz --rows 1,8,16,64,256

Both write the plain text of the same prompts and seeds: how many texts part within 30 tokens. Which tiles the launches
take, and their errors: `gpu_narrow_tiles.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch

from glimpse.attention.triton.narrow import Narrow
from glimpse.bench.clock import event_seconds
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape

CONTEXT, BUDGET, MOST, STEPS, ROOM = 8000, 512, 8, 30, 180


def steps(cell: DeviceCell, most: int) -> tuple[dict[str, float], torch.Tensor]:
    """(microseconds of each step, the plain tokens) with the narrow launches for up to `most` tokens."""
    rounds, times = cell.batch.rounds, {}
    Narrow.MOST = most
    rounds.graphs.drop(())
    text = torch.empty(0)
    runs = {
        "plain": (rounds.plain, STEPS), "draft": (lambda: rounds.draft(1), MOST - 1),
        "verify 8": (lambda: rounds.verify(7, learn=False), 6), "verify 9": (lambda: rounds.verify(8, learn=False), 6),
    }  # fmt: skip
    for name, (step, count) in runs.items():
        cell.batch.rewind()
        step()
        cell.batch.rewind()
        times[name] = event_seconds(step, count) * 1e6
        text = text if len(text) else cell.batch.rows.tokens[:, CONTEXT : CONTEXT + STEPS].clone()
    return times, text


def opened(models: Models, text: Text, model: str, rows: int) -> DeviceCell:
    """The cell, its prompts read, sampling."""
    shape = CellShape(model, CONTEXT, rows, (MOST,))
    checkpoint = models.open(shape, CONTEXT + ROOM)
    prompts = text.prompts(checkpoint.tokenizer, CONTEXT, rows)
    cell = DeviceCell(checkpoint, prompts, BUDGET, ROOM - 50, MOST)
    cell.resample(0.7, 0)
    return cell


def compared(cell: DeviceCell, own: int) -> dict[str, Any]:
    """Both ways."""
    rows = cell.rows
    apart, right = steps(cell, 0)
    again, other = steps(cell, own)
    parted = int((right != other).any(1).sum())
    for name, before in apart.items():
        print(f"{rows} rows, {name}: separate {before:.0f} us, narrow {again[name]:.0f} us", flush=True)
    print(f"{rows} rows: {parted} of {rows} texts part within {STEPS} tokens", flush=True)
    return {"rows": rows, "separate_us": apart, "narrow_us": again, "parted": parted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--rows", default="1,8,16,64,256")
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    models, text = Models(torch.bfloat16, torch.device("cuda")), Text(ids=options.ids)
    own, found, begun = Narrow.MOST, [], time.perf_counter()
    for rows in map(int, options.rows.split(",")):
        if time.perf_counter() - begun > options.seconds:
            print(f"no time for {rows} rows", flush=True)
            continue
        with torch.inference_mode():
            cell = opened(models, text, options.model, rows)
            found.append(compared(cell, own))
        cell.close()
        (Path(os.environ.get("OUT", ".")) / "narrow.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

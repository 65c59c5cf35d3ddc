"""Decode, draft, verify and whole rounds of synchronous batches on a GPU, on real text; a result file in $OUT.

    PYTHONPATH=src python3 benchmarks/gpu_decode.py --model demo.gguf --ids ids.npz --commit HASH --cells demo:8000x1

`ids.npz` holds token ids of long texts (made beforehand, as there may be no tokenizer's text on the GPU machine). Every
cell is prefilled once and rewound between the arms: plain, drafts of each length, plain again; sampled, then greedy.
Times are of graph replays, by events. A cell that fails is named and passed over; the file is written after each.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import traceback
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_cells import GREEDY, SAMPLED, Cell, Loader, copy_rate, product_rate, read_ids, timed
from gpu_targets import tables, targets
from gpu_ties import judge

from glimpse.bench.floors import Floors, Machine
from glimpse.bench.results import Result, write_result
from glimpse.sampling.params import SamplingParams
from glimpse.sampling.resolve import resolve

ROUNDS = 8
STEPS = 40
"""Plain tokens a row whose text is kept."""
EIGHT = 8
"""Tokens of the verify step that the targets speak of: a draft of one less."""


def spread(values: list[float]) -> dict[str, float]:
    """Median and extremes, in seconds."""
    return {"median": float(np.median(values)), "least": min(values), "most": max(values)}


def plain(cell: Cell) -> tuple[float, torch.Tensor]:
    """(median seconds of a step, the tokens [rows, width] of prompts and 40 plain tokens)."""
    rounds = cell.batch.rounds
    rounds.plain()
    cell.batch.rewind()
    seconds = timed(rounds.plain, STEPS)
    return seconds, cell.batch.rows.tokens.clone()


def rounds_of(cell: Cell, gamma: int, text: torch.Tensor) -> dict[str, Any]:
    """Rounds of drafts of `gamma` tokens: times, acceptance by depth, how many rows part from the plain text."""
    rounds, begin = cell.batch.rounds, cell.batch.rows.length
    rounds.draft(gamma)
    rounds.verify(gamma)
    cell.batch.rewind()
    begin = begin.clone()
    counts, marks = [], []
    for _ in range(ROUNDS):
        marks.append([torch.cuda.Event(enable_timing=True) for _ in range(3)])
        marks[-1][0].record()
        rounds.draft(gamma)
        marks[-1][1].record()
        rounds.verify(gamma)
        marks[-1][2].record()
        counts.append(cell.batch.rows.counts.clone())
    torch.cuda.synchronize()
    drafts = [a.elapsed_time(b) / 1e3 for a, b, _ in marks]
    verifies = [b.elapsed_time(c) / 1e3 for _, b, c in marks]
    tokens = torch.stack(counts).float()
    accepted = (tokens - 1).flatten()
    reach = [float((accepted >= depth).float().sum()) for depth in range(gamma + 1)]
    return {
        "gamma": gamma, "draft_s": float(np.median(drafts)) / gamma, "verify_s": float(np.median(verifies)),
        "round_s": spread([a + b for a, b in zip(drafts, verifies, strict=True)]),
        "accepted": float(accepted.mean()),
        "conditional": [after / max(1.0, before) for before, after in pairwise(reach)],
        "tokens_per_s": float(tokens.sum()) / (sum(drafts) + sum(verifies)),
        "parted": parted(cell, text, begin),
    }  # fmt: skip


def parted(cell: Cell, text: torch.Tensor, begin: torch.Tensor) -> int:
    """Rows whose text differs from the plain one, as far as both go."""
    rows, count = cell.batch.rows, 0
    for row, (start, stop) in enumerate(zip(begin.tolist(), rows.length.tolist(), strict=True)):
        stop = min(stop, start + STEPS)
        count += not torch.equal(rows.tokens[row, start:stop], text[row, start:stop])
    return count


def distinct(cell: Cell, text: torch.Tensor) -> float:
    """Share of the 4-grams of the plain texts that occur once in their row."""
    grams, every = 0, 0
    for row, start in enumerate(cell.batch.rows.length.tolist()):
        ids = text[row, start : start + STEPS].tolist()
        own = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
        grams, every = grams + len(set(own)), every + len(own)
    return grams / every


def parts_of_verify(cell: Cell, gamma: int) -> dict[str, float]:
    """Seconds of a verify step that learns nothing, of one that learns, and of selecting alone."""
    rounds, found = cell.batch.rounds, {}
    for name, learn in (("without", False), ("learning", True)):
        cell.batch.rewind()
        rounds.verify(gamma, learn=learn)
        cell.batch.rewind()
        found[name] = timed(lambda learn=learn: rounds.verify(gamma, learn=learn), 6)  # type: ignore[misc]
    found["select"] = timed(rounds.select, 6)
    cell.batch.rewind()
    return found


def arm(cell: Cell, floors: Floors, gammas: list[int], budget: int, temperature: float) -> dict[str, Any]:
    """One sampling setting of a cell: plain, all draft lengths, plain again."""
    first, text = plain(cell)
    cell.batch.rewind()
    found: dict[str, Any] = {"distinct_4grams": distinct(cell, text), "rounds": []}
    for gamma in gammas:
        cell.batch.rewind()
        found["rounds"].append(rounds_of(cell, gamma, text))
    cell.batch.rewind()
    second = timed(cell.batch.rounds.plain, 20)
    found["plain_s"] = (first + second) / 2
    found["plain_repeats_s"] = [first, second]
    best = max(found["rounds"], key=lambda row: row["tokens_per_s"])
    longest = max(found["rounds"], key=lambda row: row["gamma"])
    ceiling, length = floors.ceiling(longest["conditional"], budget)
    for row in found["rounds"]:
        row["verify_floor_s"] = floors.step(row["gamma"] + 1)
        row["speedup"] = row["tokens_per_s"] * found["plain_s"] / cell.rows
        row["speedup_over_good_plain"] = row["tokens_per_s"] * 1.10 * floors.step(1) / cell.rows
    found |= {"best_gamma": best["gamma"], "tokens_per_s": best["tokens_per_s"], "speedup": best["speedup"],
              "ceiling": ceiling, "ceiling_gamma": length, "share": best["tokens_per_s"] / ceiling}  # fmt: skip
    found["ties"] = judge(cell, text, longest["gamma"], temperature) if cell.rows <= 64 else None
    return found


def measure(name: str, cell: Cell, machine: Machine, gammas: list[int], budget: int) -> dict[str, Any]:
    """Everything about one cell."""
    floors = Floors(cell.spec, cell.context, cell.rows, machine)
    result: dict[str, Any] = {
        "cell": name, "rows": cell.rows, "context": cell.context, "prefill_s": cell.prefill_s,
        "plain_floor_s": floors.step(1), "draft_floor_s": floors.draft(budget),
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30,
        "sampled": arm(cell, floors, gammas, budget, SAMPLED["temperature"]),
        "verify_8": parts_of_verify(cell, EIGHT - 1), "verify_8_floor_s": floors.step(EIGHT),
    }  # fmt: skip
    cell.batch.resample([resolve(SamplingParams(**GREEDY, seed=row)) for row in range(cell.rows)])
    result["greedy"] = arm(cell, floors, gammas, budget, 0.0)
    result["graphs"] = len(cell.batch.rounds.graphs)
    return result


def show(result: dict[str, Any]) -> None:
    """A few lines a cell."""
    for law in ("sampled", "greedy"):
        found = result[law]
        ratio = found["plain_s"] / result["plain_floor_s"]
        print(f"{result['cell']} {law}: plain {found['plain_s'] * 1e3:.2f} ms = {ratio:.2f} floors, "
              f"best {found['best_gamma']}: {found['tokens_per_s']:.0f} tokens/s, speedup {found['speedup']:.2f}, "
              f"{found['share']:.2f} of ceiling (gamma {found['ceiling_gamma']})")  # fmt: skip
        for row in found["rounds"]:
            print(f"   {row['gamma']}: draft {row['draft_s'] * 1e3:.2f} "
                  f"({row['draft_s'] / result['draft_floor_s']:.2f}) verify {row['verify_s'] * 1e3:.2f} "
                  f"({row['verify_s'] / row['verify_floor_s']:.2f}) accepted {row['accepted']:.2f} "
                  f"speedup {row['speedup']:.2f} parted {row['parted']}")  # fmt: skip
        ties = found["ties"] and {key: value for key, value in found["ties"].items() if key != "margins"}
        print(f"   ties {ties} {found['ties'] and found['ties']['margins'][-3:]}")
    print(f"   verify 8 {result['verify_8']} prefill {result['prefill_s']:.1f} s", flush=True)


def write(cells: list[dict[str, Any]], machine: Machine, options: argparse.Namespace) -> None:
    """The result file as it stands."""
    import transformers

    versions = {"python": platform.python_version(), "torch": torch.__version__,
                "transformers": transformers.__version__, "glimpse": "0.1.0"}  # fmt: skip
    device = {"kind": "h200", "name": torch.cuda.get_device_name(), "cores": os.cpu_count() or 0, "threads": 1}
    settings = {"budget": options.budget, "sampled": SAMPLED, "dtype": "bfloat16", "decay": 0.5, "rounds": ROUNDS}
    write_result(Result(
        suite="decode", device=device, versions=versions, commit=options.commit, dirty=False, quick=False,
        settings=settings, runs=cells, floors=asdict(machine), targets=targets(cells), tables=tables(cells),
    ), Path(os.environ.get("OUT", ".")))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", required=True, help="MODEL:CONTEXTxROWS[:GAMMA+GAMMA], by commas")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=540, help="begin no cell after this")
    options = parser.parse_args()
    begin, results = time.perf_counter(), []
    loader, ids = Loader(options.model), read_ids(options.ids)
    machine = Machine(copy_rate(), product_rate())
    print(f"copy {machine.bandwidth / 1e12:.2f} TB/s, product {machine.rate / 1e12:.0f} TFLOP/s", flush=True)
    for name in options.cells.split(","):
        if time.perf_counter() - begin > options.seconds:
            print(f"no time left for {name}")
            continue
        try:
            model, shape, *lengths = name.split(":")
            context, rows = map(int, shape.split("x"))
            gammas = [int(length) for length in (lengths[0] if lengths else "4+8").split("+")]
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            with torch.inference_mode():
                cell = Cell(loader(model, context), ids, context, rows, options.budget, max(EIGHT, *gammas))
                results.append(measure(f"{model} {context}x{rows}", cell, machine, gammas, options.budget))
            show(results[-1])
            write(results, machine, options)
        except Exception:
            traceback.print_exc(limit=6)
        cell = None  # type: ignore[assignment]
        print(f"   after {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()

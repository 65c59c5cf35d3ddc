"""Which importance statistic writes the most tokens a second? One cell, drafts of 8, the same text in every arm.

    PYTHONPATH=src python3 benchmarks/gpu_importance.py --model demo.gguf --ids ids.npz

Arms: the kernels' statistic with what is left of it after a round (decay 0, .5, .8), and the paper's exact one over the
last 16 accepted queries. The latter runs in plain torch, whose time says nothing; its rounds are priced as a verify
that learns nothing, plus the bytes that kernels for it would have to move at the speed of a copy, plus a selection.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_profile import opened

from glimpse.bench.clock import copy_bandwidth, event_seconds
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.rounds import DeviceRounds, RoundSettings

GAMMA, WINDOW, TEMPERATURE = 8, 16, 0.7
SCORE_BYTES = 2
WEIGHTS = 3 * (GAMMA + 1) + WINDOW + 2
"""Numbers of 16 bits that the exact statistic moves a position and head: the queries' weights are written, read, and
written into the window; the window is read; sums are written and read."""


def arms(budget: RecallBudget) -> dict[str, RoundSettings]:
    """Settings by name."""
    found = {f"decay {decay}": RoundSettings(budget, decay=decay) for decay in (0.0, 0.5, 0.8)}
    return found | {f"exact, {WINDOW} queries": RoundSettings(budget, window=WINDOW)}


def use(cell: DeviceCell, settings: RoundSettings) -> DeviceRounds:
    """Rounds of these settings over the cell's rows and prompts."""
    batch, old = cell.batch, cell.batch.rounds
    pool, recall = batch.pool, batch.recall
    batch.rounds = DeviceRounds(batch.decoder, pool, batch.rows, recall, settings, old.vocab)
    del old
    gc.collect()
    torch.cuda.empty_cache()
    batch.rewind()
    return batch.rounds


def texts(cell: DeviceCell, rounds: DeviceRounds) -> tuple[torch.Tensor, float, float]:
    """(accepted drafts [rounds, rows] while all rows write, median seconds of a draft step, of a verify step)."""
    rows = cell.batch.rows
    rounds.draft(GAMMA)
    rounds.verify(GAMMA)
    cell.batch.rewind()
    counts, marks = [], []
    while bool(rows.active.all()):
        marks.append([torch.cuda.Event(enable_timing=True) for _ in range(3)])
        marks[-1][0].record()
        rounds.draft(GAMMA)
        marks[-1][1].record()
        rounds.verify(GAMMA)
        marks[-1][2].record()
        counts.append(rows.counts - 1)
    torch.cuda.synchronize()
    draft = float(np.median([a.elapsed_time(b) for a, b, _ in marks])) / 1e3 / GAMMA
    return torch.stack(counts), draft, float(np.median([b.elapsed_time(c) for _, b, c in marks])) / 1e3


def parts(cell: DeviceCell, rounds: DeviceRounds) -> dict[str, float]:
    """Seconds of a verify step that learns nothing, and of a selection."""
    rounds.verify(GAMMA, learn=False)
    cell.batch.rewind()
    bare = event_seconds(lambda: rounds.verify(GAMMA, learn=False), 6)
    cell.batch.rewind()
    rounds.select()
    found = {"bare_s": bare, "select_s": event_seconds(rounds.select, 6)}
    cell.batch.rewind()
    return found


def exact_seconds(cell: DeviceCell, bare: dict[str, float], rate: float) -> float:
    """A verify step with kernels for the exact statistic, estimated from bytes."""
    heads = cell.spec.layers * cell.spec.kv_heads * cell.rows
    return bare["bare_s"] + bare["select_s"] + heads * cell.context * WEIGHTS * SCORE_BYTES / rate


def figures(accepted: torch.Tensor, draft: float, verify: float) -> dict[str, Any]:
    """What an arm comes to; the interval is of the mean over rows (two standard errors)."""
    means = accepted.float().mean(0)
    reach = [float((accepted >= depth).float().mean()) for depth in range(GAMMA + 1)]
    mean = float(means.mean())
    seconds = GAMMA * draft + verify
    return {
        "rounds": accepted.numel(), "accepted": mean, "two_errors": 2 * float(means.std()) / len(means) ** 0.5,
        "first": reach[1], "conditional": [b / max(a, 1e-9) for a, b in pairwise(reach)],
        "draft_s": draft, "verify_s": verify, "round_s": seconds,
        "tokens_per_s_row": (mean + 1) / seconds, "by_row": means.tolist(),
    }  # fmt: skip


def run(cell: DeviceCell, budget: RecallBudget, seeds: int, rate: float) -> dict[str, dict[str, Any]]:
    """All arms over `seeds` sets of texts."""
    found: dict[str, dict[str, Any]] = {}
    bare: dict[str, float] = {}
    for name, settings in arms(budget).items():
        rounds = use(cell, settings)
        accepted, draft, verify = [], 0.0, 0.0
        for turn in range(seeds):
            cell.resample(TEMPERATURE, turn)
            own, draft, verify = texts(cell, rounds)
            accepted.append(own)
        bare = bare or parts(cell, rounds)
        verify = exact_seconds(cell, bare, rate) if settings.window else verify
        length = min(len(own) for own in accepted)
        found[name] = figures(torch.cat([own[:length] for own in accepted]), draft, verify)
        show(name, found[name])
    found["parts"] = bare
    return found


def show(name: str, row: dict[str, Any]) -> None:
    """One line an arm."""
    print(f"{name:20} accepted {row['accepted']:.3f} +- {row['two_errors']:.3f} first {row['first']:.3f} "
          f"draft {row['draft_s'] * 1e3:.3f} verify {row['verify_s'] * 1e3:.3f} ms, "
          f"{row['tokens_per_s_row']:.1f} tokens/s a row ({row['rounds']} rounds) "
          f"{[round(share, 3) for share in row['conditional']]}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cell", default="8000x64:8")
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    shape, rate = parse_cell(options.cell, options.model, (GAMMA,)), copy_bandwidth()
    with torch.inference_mode():
        cell = opened(shape, Models(torch.bfloat16, torch.device("cuda")), Text(ids=options.ids), options.budget)
        found = run(cell, RecallBudget(share=0.001, floor=options.budget), options.seeds, rate)
    path = Path(os.environ.get("OUT", ".")) / "importance.json"
    path.write_text(json.dumps({"cell": options.cell, "copy": rate, "arms": found}, indent=1))


if __name__ == "__main__":
    main()

"""What a mixed step costs on a GPU against the steps it is made of: some rows verify, the others draft.

    PYTHONPATH=src python3 benchmarks/gpu_mixed.py --model demo.gguf --ids ids.npz \
        --cells 8000x64:8,demo.gguf@llama-3.1-8b:8000x16:8

One line a step: milliseconds by events over graph replays, every one from the same state of the rows. The first rows
verify DRAFT tokens and the target's own, the others draft behind half a draft. Also: a step in which all rows want the
same, as its own kind and as a mixed step (what raggedness costs), and 512 prompt tokens read between the steps.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.gpu_profile import opened
from glimpse.attention.triton.mixed import Want
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.launch import token_bucket
from glimpse.engine.device.mixed import Mixed
from glimpse.engine.device.prefill import read
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.work import Work

REPEATS, SHARES = 15, (8, 4, 2)
PART = 512
"""Prompt tokens read between steps."""
COLUMNS = (
    "cell, verifying + drafting rows",
    "mixed, ms",
    "draft + verify, ms",
    "mixed / both",
    "all draft",
    "all verify",
)


class Bench:
    """The steps of one cell, each from the same state."""

    def __init__(self, cell: DeviceCell, draft: int) -> None:
        self._cell, self._batch, self._draft = cell, cell.batch, draft
        self._core, self._rows = cell.batch.rounds._core, cell.batch.rows
        self._graphs = Graphs(cell.batch.decoder.device, self._core.quiet)
        recall = self._core.recall
        # A verification of some of the rows leaves the others without a recall set.
        kept = (self._rows.length, self._rows.active, recall.slots, recall.count, recall.base)
        self._start = [(held, held.clone()) for held in kept]

    def separate(self, drafting: int, verifying: int) -> tuple[float, float]:
        """(draft step of so many rows, verification of so many), 0 where there are none."""
        draft = verify = 0.0
        if drafting:
            draft = self._time(("draft", drafting), Work(self._core, drafting, 1).draft, verifying=0)
        if verifying:
            work = Work(self._core, verifying, self._draft + 1)
            verify = self._time(("verify", verifying), partial(work.verify, Learn.ADD), verifying=verifying)
        return draft, verify

    def mixed(self, drafting: int, verifying: int) -> float:
        """One step of all of them."""
        rows, tokens = drafting + verifying, token_bucket(drafting + verifying * (self._draft + 1))
        self._core.want[:verifying], self._core.want[verifying:rows] = int(Want.ADD), int(Want.DRAFT)
        step = Mixed(self._core, rows, tokens, self._draft + 1)
        function = partial(step.run, drafts=drafting > 0, learns=verifying > 0)
        return self._time(("mixed", drafting, verifying), function, verifying=verifying)

    def part(self) -> float:
        """A part of a prompt, read eagerly: the last tokens of the first row's, once more."""
        batch, stop = self._batch, self._cell.context
        start, first = max(0, stop - PART), int(self._rows.table[0, 0]) * batch.limits.page_size
        tokens = self._rows.tokens[0, start:stop]
        step = partial(read, batch.rounds.forward, batch.pool, [(first, stop)], tokens, start)
        step()
        return median(self._cell.clock.each(lambda: None, step, REPEATS))

    def _time(self, key: tuple[Any, ...], function: Callable[[], None], *, verifying: int) -> float:
        run = partial(self._graphs.run, key, function)
        prepare = partial(self._rewind, verifying)
        prepare()
        run()
        return median(self._cell.clock.each(prepare, run, REPEATS))

    def _rewind(self, verifying: int) -> None:
        for held, start in self._start:
            held.copy_(start)
        self._rows.drafted.fill_(self._draft // 2)
        self._rows.drafted[:verifying] = self._draft


def measure(cell: DeviceCell, draft: int, name: str) -> list[dict[str, Any]]:
    """All steps of one cell."""
    bench, rows = Bench(cell, draft), cell.rows
    every_draft, every_verify = bench.separate(rows, rows)
    alike = {"all_draft": every_draft, "all_verify": every_verify}
    found = [
        {"cell": name, "step": "alike", **alike, "draft_as_mixed": bench.mixed(rows, 0),
         "verify_as_mixed": bench.mixed(0, rows), "part_of_prompt": bench.part()}
    ]  # fmt: skip
    for verifying in (rows // share for share in SHARES if rows >= share):
        drafts, verifies = bench.separate(rows - verifying, verifying)
        mixed = bench.mixed(rows - verifying, verifying)
        found.append(
            {"cell": name, "step": f"{verifying} + {rows - verifying}", "verifying": verifying, "mixed": mixed,
             "draft": drafts, "verify": verifies, "ratio": mixed / (drafts + verifies), **alike}
        )  # fmt: skip
    for run in found:
        print(
            json.dumps({k: round(1e3 * v, 4) if isinstance(v, float) and k != "ratio" else v for k, v in run.items()})
        )
    return found


def result_of(runs: list[dict[str, Any]], commit: str) -> Result:
    """The result file: a mixed step against the draft and verify steps that it takes the place of."""
    import transformers

    steps = [run for run in runs if "ratio" in run]
    targets = [
        Target(f"{run['cell']}, {run['step']} rows: mixed / (draft + verify)", "<= 1.0", run["ratio"]).noted(None)
        for run in steps
    ]
    table = [
        (f"{run['cell']}, {run['step']}", f"{1e3 * run['mixed']:.3f}", f"{1e3 * (run['draft'] + run['verify']):.3f}",
         f"{run['ratio']:.2f}", f"{1e3 * run['all_draft']:.3f}", f"{1e3 * run['all_verify']:.3f}")
        for run in steps
    ]  # fmt: skip
    gpu = {"kind": "h200", "name": torch.cuda.get_device_name()} if torch.cuda.is_available() else {"kind": "cpu"}
    versions = {"python": platform.python_version(), "torch": torch.__version__,
                "transformers": transformers.__version__, "glimpse": "0.1.0"}  # fmt: skip
    return Result(
        suite="mixed", device={**gpu, "cores": 1, "threads": 1}, versions=versions, commit=commit, dirty=False,
        quick=False, settings={"repeats": REPEATS, "part": PART}, runs=runs, targets=targets,
        tables=[Table("Mixed steps", COLUMNS, table)],
    )  # fmt: skip


def main() -> None:
    """Prints one line a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path)
    parser.add_argument("--cells", required=True)
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--out", type=Path, help="folder for the result file")
    parser.add_argument("--commit", default="unknown")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    models, text, runs = Models(dtype, device), Text(ids=given.ids), list[dict[str, Any]]()
    for shape in (parse_cell(name, given.model, (8,)) for name in given.cells.split(",")):
        with torch.inference_mode():
            cell = opened(shape, models, text, given.budget)
            runs += measure(cell, max(shape.drafts), shape.name)
        cell.close()
    if given.out:
        print(write_result(result_of(runs, given.commit), given.out))


if __name__ == "__main__":
    main()

"""What taking requests in costs whose prompts are in the cache: made, queued, their ends read, first tokens, cancelled.

    PYTHONPATH=src:. python3 benchmarks/gpu_admit.py --model demo.gguf --ids ids.npz --out OUT --commit COMMIT \
        --cells 8000x64,8000x1,demo.gguf@llama-3.1-8b:8000x64

Ends of prompts read together (`engine/device/tails.py`) against one by one, in turn, A B A B, with drafts and without;
seconds from an idle device to an idle one. First tokens are compared: in bfloat16 near ties may fall otherwise. A cell
takes about a minute, most of which reads its prompts; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from glimpse.bench import environment
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape, parse_cell
from glimpse.bench.fleet.arms import FIXED, NONE, Arm
from glimpse.bench.fleet.cell import FleetCell
from glimpse.bench.folder import script_in
from glimpse.bench.journal import Journal
from glimpse.bench.results import Result, Table, Target, write_result

ARMS = (Arm(NONE), Arm(FIXED, 5))
TOGETHER, ALONE = "together", "one by one"
PHASES = ("make", "queue", "first tokens", "cancel")
ROOM, BUDGET, TEMPERATURE = 192, 512, 0.7
MOST = 3.0
"""Milliseconds a request at 64 rows: predicted is 1.2 to 2.5."""
COLUMNS = ("cell", "drafts", "ends read", *(f"{phase}, ms a request" for phase in PHASES), "all", "first tokens differ")


@contextmanager
def reading(engine: Any, how: str) -> Iterator[None]:
    """An engine that reads the ends of prompts so. One that is not the device's has one way only."""
    reader = getattr(engine, "_reader", None)
    tails = getattr(reader, "_tails", None)
    if tails is not None and how == ALONE:
        reader._tails = None
    try:
        yield
    finally:
        if tails is not None:
            reader._tails = tails


def admit(cell: FleetCell, arm: Arm, rows: int, turn: int, how: str) -> tuple[dict[str, float], list[int]]:
    """Seconds of each phase, and the first tokens."""
    engine, requests, clock = cell.engine(arm), list[Any](), cell.clock

    def step() -> None:
        while not all(request.committer.token_ids or request.finished for request in requests):
            engine.step()

    with reading(engine, how):
        seconds = [
            clock.run(lambda: requests.extend(cell.requests(arm, rows, turn, TEMPERATURE))),
            clock.run(lambda: [engine.add(request) for request in requests]),
            clock.run(step),
        ]
        first = [request.committer.token_ids[0] for request in requests]
        seconds.append(clock.run(lambda: [engine.cancel(request) for request in reversed(requests)]))
    return dict(zip(PHASES, seconds, strict=True)), first


def measured(cell: FleetCell, arm: Arm, rows: int, turns: int) -> dict[str, Any]:
    """All turns of an arm, after one that compiles and captures."""
    found: dict[str, list[dict[str, float]]] = {TOGETHER: [], ALONE: []}
    differ = 0
    for turn in range(-1, turns):
        firsts = {}
        for how in (TOGETHER, ALONE) if turn % 2 else (ALONE, TOGETHER):
            seconds, firsts[how] = admit(cell, arm, rows, max(turn, 0), how)
            if turn >= 0:
                found[how].append(seconds)
        if turn >= 0:
            differ += sum(a != b for a, b in zip(firsts[TOGETHER], firsts[ALONE], strict=True))
    return {"arm": arm.label, "rows": rows, "turns": found, "differ": differ, "compared": rows * turns}


def a_request(run: dict[str, Any], how: str) -> list[float]:
    """Milliseconds a request of each phase, and of all of them: medians over turns."""
    turns = run["turns"][how]
    phases = [[turn[phase] for turn in turns] for phase in PHASES]
    return [1e3 * median(values) / run["rows"] for values in (*phases, [sum(turn.values()) for turn in turns])]


def result_of(runs: list[dict[str, Any]], given: argparse.Namespace) -> Result:
    """The result file."""
    rows = [
        [run["where"], run["arm"], how, *(f"{value:.2f}" for value in a_request(run, how)),
         f"{run['differ']} of {run['compared']}"]
        for run in runs for how in (TOGETHER, ALONE)
    ]  # fmt: skip
    wide = [run for run in runs if run["rows"] >= 64]
    targets = [
        Target(f"{run['where']}, {run['arm']}: ms a request", f"<= {MOST}", a_request(run, TOGETHER)[-1])
        for run in wide
    ]
    commit, dirty = environment.known_commit(environment.source_root(), given.commit)
    return Result(
        suite="admit", device=environment.device_of(where()), versions=environment.versions(), commit=commit,
        dirty=dirty, quick=False,
        settings={"turns": given.turns, "budget": BUDGET, "temperature": TEMPERATURE,
                  "ids": given.ids.name if given.ids else Text().label},
        runs=runs, targets=[target.noted(None) for target in targets],
        tables=[Table("Requests whose prompts are in the cache", COLUMNS, rows)],
    )  # fmt: skip


def where() -> torch.device:
    """The GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def opened(shape: CellShape, models: Models, text: Text) -> FleetCell:
    """A cell with its prompts read."""
    checkpoint = models.open(shape, shape.context + ROOM)
    cell = FleetCell(checkpoint, text.prompts(checkpoint.tokenizer, shape.context, shape.rows), BUDGET, ROOM)
    cell.read()
    return cell


def measure_all(given: argparse.Namespace) -> None:
    """Every cell that the journal does not have, as long as there is time."""
    header = {"commit": given.commit, "turns": given.turns, "cells": given.cells}
    journal, begun = Journal(given.out / ".admit.partial.jsonl", header), time.perf_counter()
    dtype = torch.bfloat16 if where().type == "cuda" else torch.float32
    models, text, whole = Models(dtype, where()), Text(ids=given.ids), True
    for shape in (parse_cell(name, given.model, (5,)) for name in given.cells.split(",")):
        names = {arm: f"{shape.key} {arm.label}" for arm in ARMS}
        left = [arm for arm in ARMS if names[arm] not in journal.cells]
        whole &= not left or time.perf_counter() - begun <= given.seconds
        if not left or not whole:
            continue
        cell = opened(shape, models, text)
        for arm in left:
            run = journal.add(names[arm], {"where": shape.name, **measured(cell, arm, shape.rows, given.turns)})
            print(names[arm], {how: [round(own, 3) for own in a_request(run, how)] for how in run["turns"]}, flush=True)
        cell.close()
    if journal.cells:
        print(write_result(result_of(list(journal.cells.values()), given), given.out))
    if whole:
        journal.close()


def main(arguments: list[str] | None = None) -> None:
    """One line an arm of a cell: milliseconds a request of each phase, and of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--ids", type=Path)
    parser.add_argument("--cells", default="8000x64,8000x1")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240, help="open no cell after this")
    parser.add_argument("--commit", help="the commit measured, where git is not there to ask")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file and the journal")
    given = parser.parse_args(arguments)
    with script_in(given.out, "admit"):
        measure_all(given)


if __name__ == "__main__":
    main()

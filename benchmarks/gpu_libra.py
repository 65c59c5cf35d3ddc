"""Pacers of self-drafted chains on a GPU, filled batches: tokens a second beside plain decoding, in one run.

    PYTHONPATH=src python3 -m benchmarks.gpu_libra --model demo.gguf --ids ids.npz --out FOLDER --commit HASH

The rounds run as CUDA graphs a step ahead of the host, so no token is given back and no margin is told: `marginal` and
`libraspec` go by probability and entropy there. `marginal, eager` is what margins and rollback yield in tokens a round
on the same prompts; its speed is that of the eager path. Prompts are cut out of `ids` (as for gpu_mixed.py); requests
of a batch are asked together, and the clock runs while all are decoding, which they do as prompts stay in the cache
from one turn to the next (`batch_turns`); an arm without such a time is named and left out. Finished arms are kept in a
journal in --out: the same command goes on from there, and no arm is begun after --seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.batch_turns import BEGUN, turns_of
from benchmarks.gpu_retrieval import LAWS, Asked, opened
from glimpse.bench.decode.prompts import Text
from glimpse.bench.folder import script_in
from glimpse.bench.journal import Journal
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.engine.build import build_engine, make_parts
from glimpse.engine.engine import Engine
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded, load
from glimpse.engine.options import EngineOptions
from glimpse.errors import GlimpseError

SPARSE = {"drafter": "sparse", "budget": 1e-6, "budget_floor": 512}
EAGER = "marginal, eager"
ARMS: dict[str, dict[str, Any]] = {
    "none": {"drafter": "none", "pacer": "fixed"},
    **{f"fixed {length}": {**SPARSE, "pacer": "fixed", "draft_tokens": length} for length in (2, 4, 6, 8)},
    **{name: {**SPARSE, "pacer": name} for name in ("entropy", "marginal", "libraspec")},
    EAGER: {**SPARSE, "pacer": "marginal"},
}
COLUMNS = ("cell", "pacer", "tokens/s", "times plain", "tokens a round", "drafted a round")


def engine_of(loaded: Loaded, arm: str) -> EngineFace:
    """The arm's engine over what is loaded."""
    options = EngineOptions(**ARMS[arm])
    return Engine(make_parts(loaded, options), options) if arm == EAGER else build_engine(loaded, options)


def measured(loaded: Loaded, arm: str, asked: Asked, law: str, options: argparse.Namespace) -> dict[str, Any]:
    """Some turns of one arm, after one that does not count. Raises GlimpseError as `turns_of`."""
    turns = turns_of(loaded, lambda: engine_of(loaded, arm), asked, law, options.tokens, options.turns)
    rows = [row for turn in turns for row in turn["rows"]]
    rounds = max(1, sum(row["rounds"] for row in rows))
    return {
        "arm": arm,
        "speeds": [turn["tokens"] / turn["seconds"] for turn in turns],
        "tokens_a_round": 1 + sum(row["accepted"] for row in rows) / rounds,
        "drafted_a_round": sum(row["drafted"] for row in rows) / rounds,
        "eager": sorted({reason for row in rows for reason in row["eager_steps"]}),
    }


def result_of(runs: list[dict[str, Any]], options: argparse.Namespace) -> Result:
    """The result file: the marginal criterion against the best fixed length, entropy and plain decoding of its cell."""
    import transformers

    cuda = torch.cuda.is_available()
    gpu = {"kind": "h200", "name": torch.cuda.get_device_name()} if cuda else {"kind": "cpu", "name": "cpu"}
    speeds = {(own["where"], own["arm"]): median(own["speeds"]) for own in runs}
    rows = [_line(own, speeds) for own in runs]
    return Result(
        suite="libra_gpu", device={**gpu, "cores": os.cpu_count() or 0, "threads": 1},
        versions={"python": platform.python_version(), "torch": torch.__version__,
                  "transformers": transformers.__version__, "glimpse": "0.1.0"},
        commit=options.commit, dirty=False, quick=not cuda,
        settings={"tokens": options.tokens, "turns": options.turns, "laws": LAWS, "arms": ARMS,
                  "ids": options.ids.name},
        runs=runs, targets=_targets(speeds), tables=[Table("Pacers of self-drafted chains on a GPU", COLUMNS, rows)],
    )  # fmt: skip


def _targets(speeds: dict[tuple[str, str], float]) -> list[Target]:
    found = []
    for where, arm in speeds:
        if arm == "marginal":
            fixed = max(
                (speed for (place, name), speed in speeds.items() if place == where and "fixed" in name), default=0
            )
            rivals = {"the best fixed length": fixed, "entropy": speeds.get((where, "entropy"), 0.0)}
            for rival, speed in rivals.items():
                if speed:
                    what = f"{where}: marginal over {rival}"
                    found.append(Target(what, ">= 1", speeds[where, arm] / speed).noted(None))
    return found


def _line(own: dict[str, Any], speeds: dict[tuple[str, str], float]) -> list[str]:
    plain = speeds.get((own["where"], "none"))
    speed = speeds[own["where"], own["arm"]]
    shown = f"{speed / plain:.2f}" if plain else "-"
    return [own["where"], own["arm"], f"{speed:.0f}", shown, f"{own['tokens_a_round']:.2f}",
            f"{own['drafted_a_round']:.1f}"]  # fmt: skip


def cells(options: argparse.Namespace) -> dict[str, list[tuple[int, int]]]:
    """By model, the contexts and rows asked for: "demo:8000x64,llama-3.1-8b:8000x16"."""
    found: dict[str, list[tuple[int, int]]] = {}
    for text in options.cells.split(","):
        model, _, size = text.partition(":")
        context, _, rows = size.partition("x")
        found.setdefault(model, []).append((int(context), int(rows)))
    return found


def batches(options: argparse.Namespace) -> Iterator[tuple[Loaded, str, Asked]]:
    """What is loaded, its name, and the prompts of its batch; one model at a time."""
    text, device = Text(ids=options.ids), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for model, sizes in cells(options).items():
        checkpoint = opened(model, options, device)
        for context, rows in sizes:
            loaded = replace(load(checkpoint, context + options.tokens + BEGUN, rows), step_costs=None)
            prompts = text.prompts(checkpoint.tokenizer, context, rows)
            yield loaded, f"{model} {context}x{rows}", Asked(prompts, [model] * rows)


def main(arguments: list[str] | None = None) -> None:
    """One line an arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", default="demo:7900x64,llama-3.1-8b:7900x16")
    parser.add_argument("--laws", default="T=0.7,greedy")
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by ;")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=240, help="begin no arm after this")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file and the journal")
    options = parser.parse_args(arguments)
    with script_in(options.out, "libra_gpu"):
        measure_all(options)


def measure_all(options: argparse.Namespace) -> None:
    """Every arm of every batch that the journal does not have, as long as there is time."""
    header = {"commit": options.commit, "tokens": options.tokens, "turns": options.turns, "ids": options.ids.name}
    journal, begun = Journal(options.out / ".libra_gpu.partial.jsonl", header), time.perf_counter()
    for loaded, where, asked in batches(options):
        for law, arm in product(options.laws.split(","), options.arms.split(";")):
            name = f"{where}, {law}, {arm}"
            if name in journal.cells or time.perf_counter() - begun > options.seconds:
                continue
            try:
                found = measured(loaded, arm, asked, law, options)
            except GlimpseError as error:
                print(f"{name}: {error}", flush=True)
                continue
            journal.add(name, {"where": f"{where}, {law}", **found})
            result = result_of(list(journal.cells.values()), options)
            print(*result.tables[0].rows[-1], sep="  ", flush=True)
            write_result(result, options.out)


if __name__ == "__main__":
    main()

"""What lossy modes buy on a GPU, and what they cost: straying measured, speed measured or reckoned from measured steps.

    PYTHONPATH=src:. python3 benchmarks/gpu_tradeoff.py --model demo.gguf --ids ids.npz \
        --cells 8000x16,24000x16,demo.gguf@1.7b:32000x16 --steps benchmarks/results/h200-decode.json \
        --speed-cells 8000x16,8000x256,24000x16,24000x64,demo.gguf@1.7b:32000x16,demo.gguf@1.7b:32000x24 \
        --seconds 900 --out out --commit $(git rev-parse HEAD)

`slowfast` and its sibling run as CUDA graphs, as plain and sparse decoding do: whole batches of `--speed-cells` are
timed in these modes (`tradeoff_speed`), each cell by itself. Relaxed rules run on the eager engine, so their own tokens
a second say nothing about what kernels and graphs would give: `tokens_per_s` is there, but the speed of a mode is
reckoned from the plain, draft and verify steps that `glimpse bench decode` measured for the same cell, and from the
drafts accepted (or steps trusted) here. A draft step that reads more positions than was measured lies on the line from
that one to the plain step. Cells without steps get no reckoned speed. Ends by itself; the same command goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tradeoff_speed import speeds, table
from glimpse.bench import environment
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape, parse_cell
from glimpse.bench.floors import Machine, measure_machine
from glimpse.bench.folder import script_in
from glimpse.bench.journal import Journal
from glimpse.bench.results import Result, Table, read_result, write_result
from glimpse.bench.tradeoff.measure import Effort, TradeoffMeasuring
from glimpse.bench.tradeoff.modes import Mode, parse_mode
from glimpse.bench.tradeoff.tables import COLUMNS, targets
from glimpse.bench.tradeoff.tables import tables as plain_tables
from glimpse.engine.options import EngineOptions

MODES = (
    "plain", "sparse@4", "sparse@8", "slowfast", "slowfast-exact", "cactus:1@8", "mentored:0.7@8", "typical:0.1@8",
    "cactus:10@8", "r-fuzzy:0.2@8", "cascade-tok:0.35@8", "ensemble:0.2@8", "top-k:2@8",
)  # fmt: skip
Wanted = Callable[[str], bool]
"""Whether a cell is to be measured now."""
SPEED_MODES = "plain,sparse@4,sparse@8,slowfast,slowfast-exact,slowfast-exact@4"


def reckoned(found: Mapping[str, Any], steps: Mapping[str, Any], context: int, read: int) -> float:
    """Speed over plain decoding by measured steps. `read`: a draft step's positions."""
    plain, drafts = steps["plain"]["median"], steps["draft"]
    measured, narrow = steps["budget"], drafts["median"]
    share = min(max((read - measured) / max(1, context - measured), 0.0), 1.0)
    draft = narrow + (plain - narrow) * share
    if found["trusted"]:
        return plain / (found["trusted"] * draft + (1 - found["trusted"]) * plain)
    if not found["drafted"]:
        return 1.0
    return (found["accepted"] + 1) * plain / (found["drafted"] * draft + _verify(steps, found["drafted"]))


def _verify(steps: Mapping[str, Any], drafted: float) -> float:
    """A verification of so many drafts, on the line through the two measured lengths next to it."""
    known = [(0, steps["plain"]["median"]), *((int(count), own["median"]) for count, own in steps["verify"].items())]
    lengths, seconds = zip(*sorted(known), strict=True)
    if drafted <= lengths[-1]:
        return float(np.interp(drafted, lengths, seconds))
    slope = (seconds[-1] - seconds[-2]) / (lengths[-1] - lengths[-2])
    return float(seconds[-1] + slope * (drafted - lengths[-1]))


def measure(options: argparse.Namespace, journal: Journal, deadline: float) -> list[str]:
    """Every cell that the journal does not have; returns what there was no time for."""
    models = Models(torch.bfloat16 if options.device == "cuda" else torch.float32, torch.device(options.device))
    machine, left = measure_machine(models.device, models.dtype), list[str]()

    def wanted(key: str) -> bool:
        if key in journal.cells:
            return False
        if late := time.perf_counter() > deadline:
            left.append(key)
        return not late

    for cell in chain(speed_cells(options, models, wanted), quality_cells(options, models, machine, wanted)):
        journal.add(cell["name"], cell)
    return left


def quality_cells(
    options: argparse.Namespace, models: Models, machine: Machine, wanted: Wanted
) -> Iterator[dict[str, Any]]:
    """How far each wanted mode of `--cells` strays; a cell's modes share prompts and laws."""
    modes = modes_of(options.modes)
    for shape in shapes_of(options.cells, options):
        own = measuring(options, models, machine, shape)
        for mode in modes:
            key = f"{shape.name} {mode.name}"
            if wanted(key):
                found = own.cell(mode, lambda line: None)
                print(f"{key}: TV {found['tv']:.4f}, accepted {found['accepted']:.2f}", flush=True)
                yield {**found, "name": key, "machine": asdict(machine)}
        del own
        gc.collect()


def speed_cells(options: argparse.Namespace, models: Models, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Whole batches of each wanted cell of `--speed-cells`, timed in every mode that runs as graphs."""
    asked = [(mode, budget_of(mode, options)) for mode in modes_of(options.speed_modes)]
    for shape in shapes_of(options.speed_cells, options):
        key = f"{shape.name} speeds"
        if wanted(key):
            found = list[dict[str, Any]]()
            for own in speeds(models, Text(ids=options.ids), shape, asked, options.speed_tokens, options.turns):
                found.append(own)
                print(f"{key}: {own['mode']}, {own['speeds']} tokens/s, {own['graphs']:.2f} as graphs", flush=True)
            yield {"name": key, "measured": found}


def modes_of(names: str) -> list[Mode]:
    """The modes of a list with commas."""
    return [parse_mode(name, 8) for name in names.split(",")]


def shapes_of(cells: str, options: argparse.Namespace) -> list[CellShape]:
    """The cells of a list with commas; none of an empty one."""
    return [parse_cell(cell, options.model, (8,)) for cell in cells.split(",") if cell]


def with_speeds(cells: Sequence[Mapping[str, Any]], steps: Path | None) -> list[dict[str, Any]]:
    """Cells with the speeds that are reckoned from the steps of a result file; those of which it has none have none."""
    known = {} if steps is None else {run["name"]: run for run in read_result(steps).runs if "steps" in run}
    return [_with_speed(cell, known) for cell in cells]


def _with_speed(cell: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    own = dict(cell)
    if "measured" in cell:
        own["measured"] = [_with_speed(mode, known) for mode in cell["measured"]]
    run = known.get(cell["cell"].removesuffix(f" {cell['mode']}")) if "mode" in cell else None
    if run is not None:
        steps = {**run["steps"], "budget": run["budget"]}
        own["reckoned_speed"] = reckoned(cell, steps, int(run["context"]), cell["budget"])
    return own


def measuring(options: argparse.Namespace, models: Models, machine: Machine, shape: CellShape) -> TradeoffMeasuring:
    """What the modes of a cell share."""
    effort = Effort(context=shape.context, tokens=options.tokens, texts=options.texts, rows=shape.rows)
    text = Text(ids=options.ids)
    return TradeoffMeasuring(models, machine, text, shape.model, options.budget, effort, options.fast_budget)


def budget_of(mode: Mode, options: argparse.Namespace) -> int:
    """Positions that a mode's draft steps read, its sinks and window at least."""
    asked = options.fast_budget if mode.drafter == "slowfast" else options.budget
    recall = EngineOptions(mode.drafter, budget_floor=asked).recall
    return max(asked, recall.sinks + recall.recent)


def shown(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """The tables of a result file."""
    rows = [[cell["name"], f"{cell['reckoned_speed']:.2f}", f"{cell['tv']:.4f}", f"{cell['perplexity']:.2f}"]
            for cell in cells if "reckoned_speed" in cell]  # fmt: skip
    measured = [own for cell in cells for own in cell.get("measured", ())]
    found = plain_tables(cells) + ([table(measured)] if measured else [])
    columns = (COLUMNS[0], "speed / plain", "TV", "perplexity")
    return [*found, Table("Speed reckoned from measured steps", columns, rows)] if rows else found


def again(path: Path, options: argparse.Namespace) -> Result:
    """A result file with the speeds of its cells reckoned anew."""
    known = read_result(path)
    cells = with_speeds(known.runs, options.steps)
    return replace(known, runs=cells, targets=targets(cells), tables=shown(cells))


def result_of(cells: Sequence[dict[str, Any]], options: argparse.Namespace) -> Result:
    """The result file."""
    cells = with_speeds(cells, options.steps)
    root = Path(__file__).resolve().parents[1]
    commit, dirty = environment.known_commit(root, options.commit)
    return Result(
        suite="tradeoff", device=environment.device_of(torch.device(options.device)), versions=environment.versions(),
        commit=commit, dirty=dirty, quick=False, settings=_settings(options), runs=list(cells),
        targets=targets(cells), tables=shown(cells),
    )  # fmt: skip


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("cells", "tokens", "texts", "budget", "fast_budget", "modes", "speed_cells", "speed_modes", "speed_tokens",
             "turns")  # fmt: skip
    return {name: getattr(options, name) for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures for so many seconds at most; 0 when all was measured, 3 when something is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", required=True)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--speed-cells", default="", help="whole batches whose tokens a second are measured")
    parser.add_argument("--speed-modes", default=SPEED_MODES, help="of modes that run as graphs, plain first")
    parser.add_argument("--speed-tokens", type=int, default=160)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=Path, help="result file of bench decode with these cells")
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--fast-budget", type=int, default=2308)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit")
    parser.add_argument(
        "--again", type=Path, help="a result file whose speeds are reckoned by --steps; measures nothing"
    )
    options = parser.parse_args(arguments)
    with script_in(options.out, "tradeoff"):
        return run(options, time.perf_counter() + options.seconds)


def run(options: argparse.Namespace, deadline: float) -> int:
    """What is not measured yet, as far as there is time, and the result file; see `main`."""
    if options.again:
        print(write_result(again(options.again, options), options.out))
        return 0
    header = {"code": environment.package_digest(), "settings": _settings(options), "device": options.device}
    journal = Journal(options.out / ".tradeoff.partial.jsonl", header)
    left = measure(options, journal, deadline)
    if journal.cells:
        print(write_result(result_of(list(journal.cells.values()), options), options.out))
    if left:
        print(f"no time left for {len(left)} of them; the same command goes on from here")
        return 3
    journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

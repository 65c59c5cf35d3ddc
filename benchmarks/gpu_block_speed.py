"""What a trained block adapter is worth in tokens a second on a GPU: at the demo model's cost and at an 8B model's.

    PYTHONPATH=src python3 -m benchmarks.gpu_block_speed --model demo.gguf \
        --ids questions.npz --out FOLDER --commit HASH [--seconds 420]

`--ids` are the questions of `gpu_block`; those that it trains on are left out. "llama-3.1-8b" is the model grown to
that size (`bench.grow`), and the adapter grows along (`bench.grow_adapter`): what it drafts, and so how much of it is
accepted, is the small model's, and a step costs what the large one's does. All arms of a cell take turns over the same
prompts and seeds, as CUDA graphs but for the two eager ones. `block` takes the way that is priced best, plain steps
among them; `parallel` and `sequential` have masks ride beside every verification or in steps of their own, and in the
smallest batch in which the latter is faster the ways cross. All of these cut blocks on the device by the pacer's rule;
`ahead` verifies whole blocks; `libraspec` cuts by its search instead. None waits for the host between steps. A turn of
the demo model takes a twentieth of a second, so graphs have many, and each says how many of its steps asked for drafts
and what its slowest step took: one stall is a quarter of such a turn. Eager turns take seconds and are few. Turns in
which a graph was captured are left out where there are others; the arms' first turn never counts. Cells are kept in a
journal in --out: the same command goes on from there, with --laws greedy too, and no cell is begun
after --seconds.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from benchmarks.gpu_block import LEFT_OUT, questions_of
from benchmarks.gpu_retrieval import LAWS, Asked, opened, run
from glimpse.bench.captures import settled
from glimpse.bench.environment import device_of, known_commit, source_root, versions
from glimpse.bench.grow_adapter import adapter_label, grown_adapter_file
from glimpse.bench.grow_source import open_source
from glimpse.bench.journal import Journal
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.drafting.block.shipped import DEMO, adapter_file
from glimpse.engine.build import build_engine, make_parts
from glimpse.engine.engine import Engine
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded, load
from glimpse.engine.options import EngineOptions
from glimpse.engine.warming import warm_up
from glimpse.model import resolve_model

PLAIN, EAGER, PRICED = "none", "none, eager", "block"
EAGER_BLOCK = "block, eager"
SLOW = (EAGER, EAGER_BLOCK)
FIXED = ("block, parallel", "block, sequential")
ARMS: dict[str, dict[str, Any]] = {
    PLAIN: {"drafter": "none", "pacer": "fixed"},
    EAGER: {"drafter": "none", "pacer": "fixed"},
    PRICED: {"drafter": "block"},
    FIXED[0]: {"drafter": "block", "block_mode": "parallel"},
    FIXED[1]: {"drafter": "block", "block_mode": "sequential"},
    "block, ahead": {"drafter": "block", "block_mode": "parallel", "pacer": "fixed"},
    "block, libraspec": {"drafter": "block", "pacer": "libraspec"},
    EAGER_BLOCK: {"drafter": "block"},
}
TEXTS = 4
"""A small batch has turns for so many texts at least."""
SPAN = 1.0
"""Seconds of plain decoding that are enough of one cell."""
KEPT = 0.98
"""Of plain decoding, and of the faster of the two fixed ways, what the priced way has to reach."""
COLUMNS = ("cell", "arm", "tokens/s", "times plain", "times plain, eager", "times plain, in all",
           "accepted a draft", "drafted a draft", "tokens a step", "steps asked, %", "slowest step, ms")  # fmt: skip


def engine_of(loaded: Loaded, arm: str, adapter: Path) -> EngineFace:
    """The arm's engine over what is loaded."""
    own = {"adapter": str(adapter)} if ARMS[arm]["drafter"] == "block" else {}
    options = EngineOptions(**ARMS[arm], **own, prefix_reuse=False)
    if arm in SLOW:
        return Engine(make_parts(loaded, options), options)
    return build_engine(loaded, options)


def ready(loaded: Loaded, adapter: Path, *, eager: bool) -> dict[str, EngineFace]:
    """The engine of each arm, with what its steps will need; `eager`: the eager arms too."""
    engines = {arm: engine_of(loaded, arm, adapter) for arm in ARMS if eager or arm not in SLOW}
    for arm, engine in engines.items():
        print(f"{arm}: {warm_up(loaded, engine)}", flush=True)
    return engines


def measured(
    loaded: Loaded, engines: dict[str, EngineFace], prompts: list[list[int]], rows: int, law: str,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:  # fmt: skip
    """All arms of one cell, in turns; the first turn of each does not count, nor do those that captured graphs."""

    def turned(turn: int, arm: str) -> dict[str, Any]:
        own = [prompts[(turn * rows + row) % len(prompts)] for row in range(rows)]
        return one_turn(loaded, engines[arm], Asked(own, [""] * rows), law, options.tokens)

    first = {arm: turned(0, arm) for arm in engines}
    counts = turns_of(first[PLAIN]["seconds"], rows, options)
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in engines}
    for turn in range(max(counts.values())):
        for arm in (arm for arm in engines if turn < counts[arm]):
            found[arm].append(turned(turn, arm))
    return [{"arm": arm, **_figures(turns, found)} for arm, turns in found.items()]


def turns_of(seconds: float, rows: int, options: argparse.Namespace) -> dict[str, int]:
    """How many turns of each arm count, where a plain one takes so many seconds: two at least, and few eager ones."""
    graphs = max(2, math.ceil(TEXTS / rows), min(options.turns, int(SPAN / seconds)))
    return {arm: options.eager_turns if arm in SLOW else graphs for arm in ARMS}


def one_turn(loaded: Loaded, engine: EngineFace, asked: Asked, law: str, tokens: int) -> dict[str, Any]:
    """One arm's texts; `asked`: in how many steps there might have been drafts."""

    def own() -> dict[str, Any]:
        before = _tried(engine)
        return run(loaded, engine, asked, law, tokens) | {"asked": _tried(engine) - before}

    turned, given_up, fresh = settled(own, engine)
    return turned | {"given_up": given_up, "captured": fresh}


def _tried(engine: EngineFace) -> int:
    """Steps that an engine asked for drafts so far; 0 of one that does not ask."""
    return int(getattr(getattr(getattr(engine, "_host", None), "asking", None), "tried", 0))


def _figures(own: list[dict[str, Any]], found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Speedups are medians of ratios within turns."""
    rows = [row for turn in own for row in turn["rows"]]
    rounds = sum(row["rounds"] for row in rows)
    drafts = max(1, rounds - sum(row["plain"] for row in rows))
    plain = [text for turn in found[PLAIN] for text in turn["texts"]]
    texts = [text for turn in own for text in turn["texts"]]
    return {
        "speeds": [_speed(turn) for turn in own],
        "asked": [turn["asked"] / turn["steps"] for turn in own],
        "slowest_ms": [1e3 * turn["slowest_s"] for turn in own],
        **{name: sum(turn[name] for turn in own) for name in ("given_up", "captured")},
        "times": {other: _times(own, found[other]) for other in (PLAIN, EAGER) if other in found},
        "times_in_all": _in_all(own, found[PLAIN]),
        "accepted_a_draft": sum(row["accepted"] for row in rows) / drafts,
        "drafted_a_draft": sum(row["drafted"] for row in rows) / drafts,
        "tokens_a_step": 1 + sum(row["accepted"] for row in rows) / max(1, rounds),
        "same": sum(a[: len(b)] == b[: len(a)] for a, b in zip(texts, plain, strict=False)) / len(texts),
        "eager": sorted({reason for row in rows for reason in row["eager_steps"]}),
    }


def _times(own: list[dict[str, Any]], other: list[dict[str, Any]]) -> float:
    """The median ratio within turns that both had, those left out in which a graph was captured."""
    pairs = list(zip(own, other, strict=False))
    warm = [pair for pair in pairs if not any(turn["captured"] for turn in pair)]
    return median(_speed(a) / _speed(b) for a, b in warm or pairs)


def _in_all(own: list[dict[str, Any]], other: list[dict[str, Any]]) -> float:
    """Speed over another arm's, of all turns that both had together: tries and stalls count."""
    pairs = list(zip(own, other, strict=False))
    ours, theirs = (
        sum(turn["tokens"] for turn in turns) / sum(turn["seconds"] for turn in turns)
        for turns in zip(*pairs, strict=True)
    )
    return float(ours / theirs)


def _speed(turn: dict[str, Any]) -> float:
    return float(turn["tokens"] / turn["seconds"])


def result_of(model: str, found: Sequence[dict[str, Any]], options: argparse.Namespace) -> Result:
    """The result file of one model."""
    cells = [cell for cell in found if cell["cell"].startswith(f"{model} x")]
    commit, dirty = known_commit(source_root(), options.commit)
    rows = [
        (cell["cell"], arm["arm"], f"{median(arm['speeds']):.0f}",
         *(f"{arm['times'].get(one, math.nan):.2f}" for one in (PLAIN, EAGER)), f"{arm['times_in_all']:.2f}",
         f"{arm['accepted_a_draft']:.2f}", f"{arm['drafted_a_draft']:.1f}", f"{arm['tokens_a_step']:.2f}",
         f"{100 * fmean(arm['asked']):.1f}", f"{median(arm['slowest_ms']):.1f} to {max(arm['slowest_ms']):.1f}")
        for cell in cells for arm in cell["arms"]
    ]  # fmt: skip
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Result(
        suite=f"block_speed-{model.replace('.', '-')}", device=device_of(device), versions=versions(), commit=commit,
        dirty=dirty, quick=False,
        settings={"tokens": options.tokens, "turns": options.turns, "eager_turns": options.eager_turns,
                  "arms": ARMS, "laws": LAWS, "adapter": adapter_label(options.adapter),
                  "ids": options.ids.name},
        runs=list(cells), targets=[target for cell in cells for target in _targets(cell)],
        tables=[Table("Block drafts and plain decoding in turn", COLUMNS, rows)],
    )  # fmt: skip


def _targets(cell: dict[str, Any]) -> list[Target]:
    """Whether the priced way is about as fast as the better of the paper's two, and no slower than plain decoding."""
    times = {arm["arm"]: arm["times"][PLAIN] for arm in cell["arms"]}
    rivals = {"the better fixed way": max(times[arm] for arm in FIXED), "plain decoding": 1.0}
    return [
        Target(f"{cell['cell']}: blocks by price over {rival}", f">= {KEPT}", times[PRICED] / speed).noted(None)
        for rival, speed in rivals.items()
    ]


def models(options: argparse.Namespace) -> Iterator[tuple[str, Loaded, Path]]:
    """Name, what is loaded, and the adapter of each model; one at a time."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in options.models.split(","):
        adapter = options.adapter
        if name != "demo":
            source, out = open_source(resolve_model(options.model)), options.out / f".{name}-block.safetensors"
            adapter = grown_adapter_file(options.adapter, source, name, out, device=device)
        checkpoint = opened(name, options, device)
        longest = max(map(len, options.prompts)) + options.tokens
        yield name, replace(load(checkpoint, longest, max(options.rows)), step_costs=None), adapter
        gc.collect()


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line, with the prompts that are left for judging."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--adapter", type=adapter_file, default=DEMO, help="made by glimpse train block for the model")
    parser.add_argument("--ids", type=Path, required=True, help=".npz, token ids of prompts")
    parser.add_argument("--models", default="demo,llama-3.1-8b", help="demo, or shapes that it is grown to")
    parser.add_argument("--rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 4, 8, 16])
    parser.add_argument("--laws", default="T=0.7", help="T=0.7, greedy")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--turns", type=int, default=8, help="of a graph arm, at most, beside its first")
    parser.add_argument("--eager-turns", type=int, default=1, help="of an eager arm, beside its first; 0: none is run")
    parser.add_argument("--seconds", type=float, default=420, help="begin no cell after this")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file and the journal")
    options = parser.parse_args(arguments)
    options.prompts = questions_of(options.ids)[::LEFT_OUT]
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """A few lines a cell."""
    options = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    header = {"commit": options.commit, "tokens": options.tokens, "turns": [options.turns, options.eager_turns],
              "ids": options.ids.name,
              "adapter": adapter_label(options.adapter)}  # fmt: skip
    journal, begun = Journal(options.out / ".block_speed.partial.jsonl", header), time.perf_counter()
    for model, loaded, adapter in models(options):
        engines = dict[str, EngineFace]()
        for law, rows in product(options.laws.split(","), options.rows):
            name = f"{model} x{rows}, {law}"
            if name in journal.cells or time.perf_counter() - begun > options.seconds:
                continue
            engines = engines or ready(loaded, adapter, eager=options.eager_turns > 0)
            journal.add(name, {"arms": measured(loaded, engines, options.prompts, rows, law, options)})
            result = result_of(model, list(journal.cells.values()), options)
            print(*("  ".join(row) for row in result.tables[0].rows[-len(engines) :]), sep="\n", flush=True)
            write_result(result, options.out)


if __name__ == "__main__":
    main()

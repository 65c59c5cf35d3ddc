"""RACER's trees priced by cost against fixed budgets of nodes, at batch 1, 8 and 32, on measured step-time surfaces.

    python -m benchmarks.retrieval_pricing --answers FOLDER

Replayed (`retrieval_batch`), without an engine and without a clock: drafter and pacer are the engine's own, the texts
are answers written before (FOLDER is written by `retrieval_answers`), and a step takes what the surface fitted to a
committed result file says: the H200 at the cost of the 8B and the 135M model, and a CPU. What the host takes between
steps is left out, so at 135M on the H200 all drafts look better than they are. Logits are known of an answer's own
tokens only, so drafts are a lower bound. Every run follows the answers in an order of its own, the same for all arms.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.libra_surfaces import surfaces
from benchmarks.plan_cells import read_cells
from benchmarks.plan_surface import surface
from benchmarks.retrieval_arms import Answer
from benchmarks.retrieval_batch import Batch, Policy
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.errors import GlimpseError
from glimpse.planning import find_device

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PLAIN, PRICED = "none", "priced"
CPU = "cpu, 135M"
Coefficients = Sequence[float]


def policies(budgets: Sequence[int]) -> dict[str, Policy]:
    """Plain decoding, priced trees of at most 64 nodes, and trees of which all nodes are verified."""
    fixed = {f"{most} nodes": Policy("racer", "fixed", most) for most in budgets}
    return {PLAIN: Policy("none", "fixed", 0), PRICED: Policy("racer", "marginal", 64), **fixed}


def prices(folder: Path) -> Mapping[str, Coefficients]:
    """Of whole steps, by device and model. Raises GlimpseError for a result file that is not there."""
    cells = read_cells([folder / "h200-decode.json", folder / "h200-peers.json"])
    found: dict[str, Coefficients] = {}
    for shape, name in (("llama-3.1-8b", "h200, 8B cost"), ("demo", "h200, 135M")):
        mine = [cell for cell in cells if cell.shape == shape]
        if mine:
            measured = surface(mine, find_device("h200")).measured
            assert measured is not None
            found[name] = measured.coefficients
    return {**found, CPU: surfaces(folder)["cpu demo 4000x1"].coefficients}


def answers_of(folder: Path) -> list[Answer]:
    """All of a folder, both modes. Raises GlimpseError where there is none."""
    found = [Answer.read(path) for path in sorted(folder.glob("*.npz"))]
    if not found:
        raise GlimpseError(f"{folder} holds no answers: run benchmarks.retrieval_answers first")
    return found


def turn(
    answers: list[Answer], rows: int, coefficients: Coefficients, arms: dict[str, Policy], tokens: int, seed: int
) -> dict:
    """A cell: every arm over the answers in one order."""
    order = np.random.default_rng(seed).permutation(len(answers))
    own = [answers[place] for place in order]
    return {name: Batch(own, rows, policy, coefficients).run(tokens * rows).as_json() for name, policy in arms.items()}


def ratio(runs: Sequence[dict], first: str, second: str) -> float:
    """The median over orders of the speed of one arm over another's."""
    return median(run[first]["tokens_per_s"] / run[second]["tokens_per_s"] for run in runs)


def row(name: str, runs: Sequence[dict], fixed: Sequence[str]) -> list[str]:
    """Of the table: speeds over plain decoding, the nodes that priced trees had, and how they compare."""
    speeds = {arm: ratio(runs, arm, PLAIN) for arm in (PRICED, *fixed)}
    best = max(fixed, key=lambda arm: speeds[arm])
    over = [run[PRICED]["tokens_per_s"] / run[best]["tokens_per_s"] for run in runs]
    nodes = fmean(run[PRICED]["nodes_a_round"] for run in runs)
    return [name, *(f"{speeds[arm]:.2f}" for arm in fixed), f"{speeds[PRICED]:.2f}", f"{nodes:.1f}", best,
            f"{median(over):.3f} ({min(over):.3f} to {max(over):.3f})"]  # fmt: skip


def targets(name: str, runs: Sequence[dict], fixed: Sequence[str]) -> list[Target]:
    """Priced trees lose to no budget that was chosen beforehand, nor to plain decoding."""
    best = min(ratio(runs, PRICED, arm) for arm in fixed)
    return [
        Target(f"{name}: priced trees over the best fixed budget", ">= 0.98", best),
        Target(f"{name}: priced trees over plain decoding", ">= 0.98", ratio(runs, PRICED, PLAIN)),
    ]


def body(bench: Bench, folder: Path) -> Findings:
    settings = bench.settings
    answers, arms, table, found = answers_of(folder), policies(settings["budgets"]), [], []
    fixed = [name for name in arms if name not in (PLAIN, PRICED)]
    for device, coefficients in prices(RESULTS).items():
        for rows in settings["rows"] if device != CPU else settings["rows"][:1]:
            name, orders = f"{device} x{rows}", range(settings["orders"])
            runs = [
                bench.cell(f"{name} {seed}", partial(turn, answers, rows, coefficients, arms, settings["tokens"], seed))
                for seed in orders
            ]
            table.append(row(name, runs, fixed))
            found += targets(name, runs, fixed)
    columns = ("steps of", *fixed, PRICED, "its nodes", "best fixed", "priced over it (lowest, highest)")
    return Findings(found, [Table("RACER over plain decoding, all nodes or those that pay", columns, table)])


def suite(folder: Path) -> Suite:
    return Suite(
        name="retrieval_pricing",
        summary=__doc__.splitlines()[0],
        settings={"budgets": [4, 8, 16, 32, 64], "rows": [1, 8, 32], "tokens": 200, "orders": 3},
        quick={"budgets": [2, 8], "rows": [1, 2], "tokens": 20, "orders": 1},
        body=partial(body, folder=folder),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--answers", type=Path, required=True)
    known, rest = parser.parse_known_args()
    sys.exit(main(suite(known.answers), ROOT, rest))

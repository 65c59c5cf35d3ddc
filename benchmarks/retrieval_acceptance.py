"""Tokens a round of retrieval drafts on Spec-Bench, HumanEval, GSM8K and MGSM, at equal node budgets; ablations.

    python -m benchmarks.retrieval_acceptance --answers FOLDER

FOLDER is written by `retrieval_answers`; `retrieval_arms` says how the answers are followed. Intervals are bootstrapped
over answers, both sources of a difference on the same ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.retrieval_arms import ARMS, Answer, follow
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.bench.texts import digest
from glimpse.errors import GlimpseError

MODES = ("greedy", "sampled")
SETS = {"spec_bench": "Spec-Bench", "human_eval": "HumanEval", "gsm8k": "GSM8K", "mgsm": "MGSM"}
RIVALS = ("table", "lookup")
"""RACER must exceed each of them on every set, at equal budgets."""

Run = Sequence[int]
"""Rounds, tokens and nodes of one answer."""


def tokens_a_round(runs: Sequence[Run]) -> float:
    return sum(run[1] for run in runs) / sum(run[0] for run in runs)


def nodes_a_round(runs: Sequence[Run]) -> float:
    return sum(run[2] for run in runs) / sum(run[0] for run in runs)


def gain(pairs: Sequence[tuple[Run, Run]]) -> float:
    return tokens_a_round([pair[0] for pair in pairs]) - tokens_a_round([pair[1] for pair in pairs])


def followed(answer: Answer, budgets: Sequence[int]) -> dict:
    """A cell: the answer under every arm; of each "rounds/nodes" for every budget, as one string: files stay small."""
    output = answer.ids[answer.prompt :]
    facts = {"set": answer.set, "name": answer.name, "prompt": answer.prompt, "tokens": len(output)}
    arms = {arm: [follow(arm, answer, budget) for budget in budgets] for arm in ARMS}
    shown = {arm: " ".join(f"{rounds}/{nodes}" for rounds, _, nodes in runs) for arm, runs in arms.items()}
    return {**facts, "digest": digest(answer.ids), "distinct_4grams": distinct_share(output), "runs": shown}


class Cells:
    """The cells of one mode."""

    def __init__(self, cells: Sequence[dict], budgets: Sequence[int]) -> None:
        self.cells, self._budgets = cells, list(budgets)

    def runs(self, arm: str, budget: int, chosen: str | None = None) -> list[Run]:
        """One run an answer, of one set or of all."""
        return [self._run(cell, arm, budget) for cell in self.cells if chosen in (None, cell["set"])]

    def _run(self, cell: dict, arm: str, budget: int) -> Run:
        rounds, nodes = map(int, cell["runs"][arm].split()[self._budgets.index(budget)].split("/"))
        return rounds, cell["tokens"], nodes

    def compared(self, first: str, second: str, budget: int, chosen: str | None = None) -> tuple[float, float, float]:
        """The gain of one arm over another, and its interval."""
        pairs = list(zip(self.runs(first, budget, chosen), self.runs(second, budget, chosen), strict=True))
        return (gain(pairs), *bootstrap(pairs, gain))

    def heading(self) -> list[str]:
        counts = {name: sum(cell["set"] == name for cell in self.cells) for name in SETS}
        return [f"{shown} ({counts[name]})" for name, shown in SETS.items()]

    @property
    def distinct(self) -> float:
        return sum(cell["distinct_4grams"] for cell in self.cells) / len(self.cells)


def lengths(mode: str, cells: Cells, budget: int) -> Table:
    """Mean accepted lengths, the target's own token included."""
    rows = []
    for arm in ARMS:
        each, every = [tokens_a_round(cells.runs(arm, budget, name)) for name in SETS], cells.runs(arm, budget)
        rows.append([arm, *(f"{value:.2f}" for value in (*each, tokens_a_round(every))), f"{nodes_a_round(every):.0f}"])
    title = f"Tokens a round at {budget} nodes, {mode}, {cells.distinct:.0%} of the 4-grams distinct"
    return Table(title, ("source", *cells.heading(), "all", "drafted"), rows)


def by_nodes(mode: str, cells: Cells, budgets: Sequence[int]) -> Table:
    """The same over all answers, for each budget."""
    rows = [[arm, *(f"{tokens_a_round(cells.runs(arm, budget)):.2f}" for budget in budgets)] for arm in ARMS]
    return Table(f"Tokens a round by nodes, {mode}, all answers", ("source", *map(str, budgets)), rows)


def gains(mode: str, cells: Cells, budget: int) -> Table:
    """RACER over each of its rivals, with intervals."""
    rows = []
    for rival in (*RIVALS, "automaton", "racer, half-half", "racer, contexts >= 2"):
        each = [cells.compared("racer", rival, budget, name) for name in (*SETS, None)]
        rows.append([rival, *(f"{mid:+.2f} ({low:+.2f} to {high:+.2f})" for mid, low, high in each)])
    return Table(
        f"RACER at {budget} nodes over others, tokens a round, {mode}", ("over", *cells.heading(), "all"), rows
    )


def targets(mode: str, cells: Cells, budget: int) -> list[Target]:
    """The lower ends of RACER's gains must not be below 0."""
    return [
        Target(f"{mode}, {shown}, {budget} nodes: racer over {rival}, lower end of the 95% interval", ">= 0", low)
        for name, shown in SETS.items()
        for rival in RIVALS
        for low in [cells.compared("racer", rival, budget, name)[1]]
    ]


def body(bench: Bench, folder: Path) -> Findings:
    budgets, headline, found, tables = bench.settings["budgets"], bench.settings["headline"], [], []
    for mode in MODES:
        paths = sorted(folder.glob(f"*-{mode}.npz"))[:: bench.settings["every"]]
        if not paths:
            raise GlimpseError(f"{folder} holds no *-{mode}.npz: run benchmarks.retrieval_answers first")
        cells = Cells([bench.cell(path.stem, partial(followed, Answer.read(path), budgets)) for path in paths], budgets)
        tables += [lengths(mode, cells, headline), gains(mode, cells, headline), by_nodes(mode, cells, budgets)]
        found += targets(mode, cells, headline)
    return Findings(found, tables)


def suite(folder: Path) -> Suite:
    return Suite(
        name="retrieval_acceptance",
        summary=__doc__.splitlines()[0],
        settings={"budgets": [16, 32, 48, 64, 96], "headline": 64, "every": 1},
        quick={"budgets": [16, 64], "every": 2},
        body=partial(body, folder=folder),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--answers", type=Path, required=True)
    known, rest = parser.parse_known_args()
    sys.exit(main(suite(known.answers), Path(__file__).resolve().parents[1], rest))

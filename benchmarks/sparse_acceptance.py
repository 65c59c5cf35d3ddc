"""How many of 8 sparse drafts are accepted on real text, and by position? `--sweep`: which budget and windows are best.

Passages of two books as prompts, a fixed draft length, the acceptance rule `coupled`. Only rounds that drafted all 8
tokens count (the end of an output leaves less room). Intervals are bootstrapped over prompts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.cache.recall import RecallBudget
from glimpse.errors import GlimpseError

GAMMA = 8
MODES = {
    "T=0.7, top-k 50, top-p 0.9": SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=11, ignore_eos=True),
    "greedy": SamplingParams(temperature=0, ignore_eos=True),
}


def rounds_of(llm: LLM, ids: list[int], mode: str, tokens: int, facts: dict) -> dict:
    """Accepted drafts of every round that drafted GAMMA tokens, over about `tokens` tokens, beside `facts`."""
    given = {name: value for name, value in MODES[mode].as_dict().items() if value is not None}
    most = tokens + GAMMA + 1
    accepted, written, output = [], 0, None
    for chunk in llm.stream(ids, SamplingParams(**given | {"max_tokens": most})):
        if written and most - written - 1 >= GAMMA:
            accepted.append(sum(piece.drafted for piece in chunk.pieces))
        written += len(chunk.token_ids)
        output = chunk.output or output
    full = output.speculation.draft_lengths[GAMMA] if output else 0
    if full != len(accepted):
        raise GlimpseError(f"{full} rounds drafted {GAMMA} tokens, but {len(accepted)} were expected to")
    return {**facts, "accepted": accepted, "distinct_4grams": distinct_share(output.token_ids)}


def mean_accepted(groups: Sequence[Sequence[int]]) -> float:
    """Accepted drafts a round, over all rounds of all prompts."""
    return sum(map(sum, groups)) / max(1, sum(map(len, groups)))


def conditional(groups: Sequence[Sequence[int]]) -> list[float | None]:
    """For each position, the share accepted of those whose predecessors all were."""
    every = [count for group in groups for count in group]
    shares = []
    for place in range(GAMMA):
        reached = sum(count >= place for count in every)
        shares.append(sum(count > place for count in every) / reached if reached else None)
    return shares


def sparse(llm: LLM, budget: RecallBudget) -> LLM:
    """The sparse drafter with every field of its budget chosen; `EngineOptions` has only share and floor."""
    chosen = {"budget": budget.share, "budget_floor": budget.floor}
    arm = llm.variant(drafter="sparse", pacer="fixed", draft_tokens=GAMMA, **chosen)
    parts_of(arm).drafter._budget = budget
    return arm


def measure(bench: Bench, budgets: dict[str, RecallBudget], modes: Sequence[str]) -> dict[tuple[str, str], list[dict]]:
    """Cells by (budget, mode): one run a prompt; a prompt is read once for all of them."""
    settings = bench.settings
    found = {key: [] for key in product(budgets, modes)}
    for index in range(settings["passages"]):
        names = {key: f"{index} {key[0]} {key[1]}" for key in found}
        if not bench.known(names.values()):
            passage = bench.passages(settings["prompt"], settings["passages"])[index]
            facts = {"book": passage.book, "start": passage.start, "digest": passage.digest}
            with bench.llm.pinned(passage.ids) as ids:
                for (budget, mode), name in names.items():
                    arm = sparse(bench.llm, budgets[budget])
                    bench.cell(name, partial(rounds_of, arm, ids, mode, settings["tokens"], facts))
        for key, name in names.items():
            found[key].append(bench.recorded(name))
    return found


def row(runs: list[dict]) -> list[str]:
    groups = [run["accepted"] for run in runs]
    low, high = bootstrap(groups, mean_accepted)
    shares = " ".join("-" if share is None else f"{share:.2f}" for share in conditional(groups))
    distinct = sum(run["distinct_4grams"] for run in runs) / len(runs)
    rounds = sum(map(len, groups))
    return [f"{mean_accepted(groups):.2f}", f"{low:.2f} to {high:.2f}", shares, f"{distinct:.0%}", f"{rounds}"]


COLUMNS = ("accepted of 8", "95% interval", "P(accepted, given all before), by position", "distinct 4-grams", "rounds")


def body(bench: Bench) -> Findings:
    budget = RecallBudget(share=bench.settings["budget"])
    found = measure(bench, {"default": budget}, list(MODES))
    headline = [run["accepted"] for run in found["default", "T=0.7, top-k 50, top-p 0.9"]]
    title = f"Sparse drafts on book text, {bench.settings['prompt']:,} tokens of prompt, budget {budget.share:.0%}"
    what = f"sparse drafts accepted of 8 at {bench.settings['prompt']:,} tokens, T=0.7, top-k 50, top-p 0.9"
    return Findings(
        [Target(what, ">= 4.8", mean_accepted(headline))],
        [Table(title, ("sampling", *COLUMNS), [[mode, *row(runs)] for (_, mode), runs in found.items()])],
    )


def sweep(bench: Bench) -> Findings:
    budgets = {
        f"{share:.0%}, floor {floor}, recent {recent}": RecallBudget(share=share, floor=floor, recent=recent)
        for share, floor, recent in bench.settings["budgets"]
    }
    found = measure(bench, budgets, list(MODES)[:1])
    rows = [[name, *row(runs)] for (name, _), runs in found.items()]
    return Findings([], [Table("Recall budgets, T=0.7, top-k 50, top-p 0.9", ("budget", *COLUMNS), rows)])


SUITE = Suite(
    name="sparse_acceptance",
    summary=__doc__.splitlines()[0],
    settings={"prompt": 7000, "passages": 16, "tokens": 128, "budget": 0.1, "modes": list(MODES)},
    quick={"prompt": 600, "passages": 2, "tokens": 12},
    body=body,
)
SWEEP = Suite(
    name="sparse_sweep",
    summary="Sparse acceptance over shares of the context, floors and recent windows.",
    settings={
        "prompt": 7000,
        "passages": 12,
        "tokens": 64,
        "budgets": [
            *([share, 256, 32] for share in (0.05, 0.1, 0.2)),
            *([0.1, 256, recent] for recent in (8, 16, 64, 128, 256)),
            [0.02, 128, 32],
        ],
    },
    quick={"prompt": 600, "passages": 2, "tokens": 12, "budgets": [[0.2, 64, 16], [0.2, 64, 32]]},
    body=sweep,
)

if __name__ == "__main__":
    chosen = SWEEP if "--sweep" in sys.argv else SUITE
    rest = [argument for argument in sys.argv[1:] if argument != "--sweep"]
    sys.exit(main(chosen, Path(__file__).resolve().parents[1], rest))

"""Is the entropy pacer as fast as the best fixed draft length, chosen on other prompts?

Real text, every arm over the same pinned prompt, in turn and in reversed turn; all arms write the same text
(`coupled`), so a ratio of speeds is a ratio of times. Half of the prompts choose the best fixed length, the other half
judge, and the other way round. Engines live through the whole suite, as a user's would: what they learned of step costs
stays.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap
from glimpse.bench.timing import interleave, ratios

PARAMS = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 5, "ignore_eos": True}
ENTROPY = "entropy"


def speeds(llm: LLM, ids: list[int], tokens: int) -> dict:
    out = llm.generate([ids], SamplingParams(**PARAMS, max_tokens=tokens))[0]
    speculation = out.speculation
    return {
        "tokens_per_s": out.timing.tokens_per_s,
        "seconds": out.timing.decode_s,
        "mean_drafted": speculation.drafted / max(1, speculation.rounds),
        "accepted": speculation.accepted,
        "steps": [speculation.rounds, speculation.plain_steps, speculation.draft_steps],
        "token_ids": list(out.token_ids),
    }


def arms_of(llm: LLM, drafter: str, lengths: Sequence[int]) -> dict[str, LLM]:
    fixed = {f"fixed {length}": llm.variant(drafter=drafter, pacer="fixed", draft_tokens=length) for length in lengths}
    return {**fixed, ENTROPY: llm.variant(drafter=drafter, pacer="entropy", draft_tokens=None)}


def one_prompt(engines: dict[str, LLM], ids: list[int], settings: dict, facts: dict) -> dict:
    """All arms in turn; `facts` say what the prompt was."""
    runs = {name: (lambda llm=llm: speeds(llm, ids, settings["tokens"])) for name, llm in engines.items()}
    found = interleave(runs, settings["rounds"], warm_up=0)
    texts = {tuple(run.pop("token_ids")) for each in found.values() for run in each}
    return {**facts, "arms": found, "texts": len(texts)}


def measure(bench: Bench, drafter: str, length: int) -> list[dict]:
    """One cell a prompt."""
    settings, engines = bench.settings, {}
    cells = []
    for index in range(settings["prompts"]):
        name = f"{drafter} {length} prompt {index}"
        if not bench.known([name]):
            passage = bench.passages(length, settings["prompts"])[index]
            with bench.llm.pinned(passage.ids) as ids:
                if not engines:
                    engines = arms_of(bench.llm, drafter, settings["fixed"])
                    one_prompt(engines, ids, {**settings, "rounds": 1}, {})  # warms up kernels and step costs
                facts = {"drafter": drafter, "prompt": length, "digest": passage.digest}
                bench.cell(name, partial(one_prompt, engines, ids, settings, facts))
        cells.append(bench.recorded(name))
    return cells


def speed(cells: Sequence[dict], arm: str) -> float:
    """Decode tokens per second over all runs: tokens over time."""
    runs = [run for cell in cells for run in cell["arms"][arm]]
    return sum(run["tokens_per_s"] * run["seconds"] for run in runs) / sum(run["seconds"] for run in runs)


def best_fixed(cells: Sequence[dict]) -> str:
    return max((arm for arm in cells[0]["arms"] if arm != ENTROPY), key=lambda arm: speed(cells, arm))


def against_best(cells: Sequence[dict]) -> list[list[float]]:
    """For each prompt, the ratios within the rounds to the fixed length that the other half of the prompts prefers."""
    halves = [cells[0::2], cells[1::2]]
    found = []
    for own, other in (halves, halves[::-1]):
        rival = best_fixed(other)
        found += [over(cell, ENTROPY, rival) for cell in own]
    return found


def over(cell: dict, arm: str, other: str) -> list[float]:
    """How much faster one arm was than another, round by round."""
    return ratios(*([run["tokens_per_s"] for run in cell["arms"][name]] for name in (arm, other)))


def pooled_median(groups: Sequence[Sequence[float]]) -> float:
    return median(ratio for group in groups for ratio in group)


def rows(cells: list[dict]) -> list[list[str]]:
    """Each arm over plain decoding, with the interval over prompts."""
    table = []
    for arm in cells[0]["arms"]:
        groups = [over(cell, arm, "fixed 0") for cell in cells]
        low, high = bootstrap(groups, pooled_median)
        drafted = median(run["mean_drafted"] for cell in cells for run in cell["arms"][arm])
        table.append([arm, f"{speed(cells, arm):.2f}", f"{pooled_median(groups):.2f}", f"{low:.2f} to {high:.2f}",
                      f"{drafted:.1f}"])  # fmt: skip
    return table


def body(bench: Bench) -> Findings:
    targets, tables, differing = [], [], 0
    for drafter, length in bench.settings["drafters"].items():
        cells = measure(bench, drafter, length)
        groups = against_best(cells)
        low, high = bootstrap(groups, pooled_median)
        chosen = sorted({best_fixed(cells[0::2]), best_fixed(cells[1::2])})
        what = f"{drafter} at {length:,} tokens: entropy pacer over the best fixed draft length of other prompts"
        targets.append(Target(what, ">= 0.98", pooled_median(groups)))
        title = (
            f"{drafter}, {length:,} tokens, T=0.7, top-k 50, top-p 0.9 (entropy over {' or '.join(chosen)}: "
            f"{pooled_median(groups):.3f}, {low:.3f} to {high:.3f})"
        )
        tables.append(Table(title, ("pacer", "tokens/s", "over plain", "95% interval", "drafted a round"), rows(cells)))
        differing += sum(cell["texts"] != 1 for cell in cells)
    targets.append(Target("prompts on which the arms did not all write the same text", "== 0", differing))
    return Findings(targets, tables)


SUITE = Suite(
    name="pacer",
    summary=__doc__.splitlines()[0],
    settings={
        "drafters": {"sparse": 7000, "lookup": 1000},
        "fixed": [0, 4, 8, 12, 16, 20],
        "prompts": 8,
        "rounds": 2,
        "tokens": 96,
        "sampling": PARAMS,
    },
    quick={"drafters": {"sparse": 300, "lookup": 100}, "fixed": [0, 4], "prompts": 2, "rounds": 1, "tokens": 8},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))

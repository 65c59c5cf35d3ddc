"""Each row of a batch at its own pace, against drafting in step, +-1 feedback and fixed lengths.

Replayed: the pacers' own code over the acceptance that `benchmarks.sparse_acceptance` measured (accepted of 8 drafts,
round by round, when sampling; its result file must be there), on cost surfaces measured on an H200. Half of the rows of
hard text and half of easy is shown apart. Run: batches of book text on this CPU, timed by the processor time of one
thread, in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from benchmarks.fleet_replay import ARMS, SURFACES, Replay, Traces, paper
from benchmarks.sparse_acceptance import GAMMA
from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.bench.results import Table, Target, read_result
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.timing import interleave

PLAIN, FLEET, ONE = "fixed 0", "fleet", "fleet, one acceptance a request"
SAMPLING = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "ignore_eos": True}
ROOT = Path(__file__).resolve().parents[1]


def traces_of(source: str | None) -> list[list[list[int]]]:
    """By passage and round, which draft tokens are right; made up for a smoke run."""
    if source is None:
        return np.random.default_rng(0).binomial(1, 0.9, (4, 6, GAMMA)).tolist()
    result = read_result(ROOT / "benchmarks" / "results" / source)
    # The modes follow one another, sampling first, for each passage in turn.
    sampled = result.runs[:: len(result.settings["modes"])]
    return [[[1] * kept + [0] * (GAMMA - kept) for kept in run["accepted"]] for run in sampled]


def length_of(right: Sequence[int]) -> int:
    """How many drafts are accepted before the first that is not."""
    return [*right, 0].index(0)


def batches(traces: Traces) -> dict[str, Traces]:
    """All texts alike, and the hardest third beside the easiest third."""
    ranked = sorted(traces, key=lambda trace: float(np.mean([length_of(right) for right in trace])))
    third = max(1, len(ranked) // 3)
    return {"all": traces, "half hard, half easy": [*ranked[:third], *ranked[-third:]]}


def replayed(name: str, batch: str, traces: Traces, settings: dict) -> dict:
    """All arms on one surface, by seed: tokens per second and mean draft."""
    made, arms = SURFACES[name], {}
    for arm, make in ARMS.items():
        runs = []
        for seed in range(settings["seeds"]):
            found = Replay(make, traces, made, seed).run(settings["steps"], settings["warm_up"])
            rate, drafted = float(found.tokens.sum() / found.seconds), found.drafted / max(1, found.rounds)
            runs.append({"tokens_per_s": rate, "mean_drafted": drafted})
        arms[arm] = runs
    return {"kind": "replayed", "surface": name, "batch": batch, "arms": arms}


def engines(llm: LLM) -> dict[str, LLM]:
    """Arms on this machine: one engine each, over the same weights and cache."""
    named = {name: llm.variant(drafter="sparse", pacer=name) for name in ("synchronised", FLEET)}
    one = llm.variant(drafter="sparse", pacer=FLEET)
    paper(parts_of(one).pacer)
    return {PLAIN: llm, **named, ONE: one}


def timed(llm: LLM, prompts: list[list[int]], params: list[SamplingParams]) -> dict:
    begun = time.process_time()
    # The pacer's clock too: on a machine that others use, seconds of the wall say nothing of what a step costs.
    with patch("glimpse.engine.engine.time", SimpleNamespace(perf_counter=time.process_time)):
        outs = llm.generate(prompts, params)
    seconds = time.process_time() - begun
    tokens = sum(len(out.token_ids) for out in outs)
    drafted = sum(out.speculation.drafted for out in outs) / max(1, sum(out.speculation.rounds for out in outs))
    text = hash(tuple(tuple(out.token_ids) for out in outs))
    return {"tokens_per_s": tokens / seconds, "mean_drafted": drafted, "text": text}


def ran(bench: Bench, arms: dict[str, LLM], index: int) -> dict:
    """One batch of passages, all arms in turn."""
    settings = bench.settings
    rows, length = settings["rows"], settings["prompt"]
    chosen = bench.passages(length, rows * settings["batches"])[index * rows : (index + 1) * rows]
    params = [SamplingParams(**SAMPLING, seed=seed, max_tokens=settings["tokens"]) for seed in range(rows)]
    with ExitStack() as pinned:
        prompts = [pinned.enter_context(bench.llm.pinned(list(passage.ids))) for passage in chosen]
        runs = {name: partial(timed, llm, prompts, params) for name, llm in arms.items()}
        found = interleave(runs, settings["rounds"])
    texts = {run.pop("text") for each in found.values() for run in each}
    return {"kind": "run", "batch": index, "arms": found, "texts": len(texts)}


def over(cell: dict, arm: str, other: str) -> list[float]:
    """Ratios of speeds, run by run."""
    pairs = zip(cell["arms"][arm], cell["arms"][other], strict=True)
    return [mine["tokens_per_s"] / theirs["tokens_per_s"] for mine, theirs in pairs]


def mean_of(cell: dict, arm: str, key: str) -> float:
    return float(np.mean([run[key] for run in cell["arms"][arm]]))


def replay_table(cells: list[dict]) -> Table:
    columns = ["over plain decoding"] + [f"{cell['surface']}, {cell['batch']}" for cell in cells]
    rows = []
    for arm in ARMS:
        shown = [f"{np.mean(over(cell, arm, PLAIN)):.3f} ({mean_of(cell, arm, 'mean_drafted'):.1f})" for cell in cells]
        rows.append([arm, *shown])
    return Table("Replayed: speed over plain decoding (tokens drafted a round)", columns, rows)


def run_table(cells: list[dict], settings: dict) -> Table:
    rows = []
    for arm in cells[0]["arms"]:
        groups = [over(cell, arm, PLAIN) for cell in cells]
        low, high = quantiles([ratio for group in groups for ratio in group], n=4, method="inclusive")[::2]
        drafted = np.mean([mean_of(cell, arm, "mean_drafted") for cell in cells])
        rows.append([arm, f"{pooled(groups):.3f}", f"{low:.3f} to {high:.3f}", f"{drafted:.1f}"])
    rows_of = f"{settings['batches']} x {settings['rows']} rows of {settings['prompt']:,} tokens"
    title = f"Run on this CPU, one thread: {rows_of}, sparse drafter, {settings['tokens']} tokens each"
    return Table(title, ("pacer", "over plain", "quartiles of the runs", "drafted a round"), rows)


def pooled(groups: Sequence[Sequence[float]]) -> float:
    return float(np.median([ratio for group in groups for ratio in group]))


def body(bench: Bench) -> Findings:
    settings, arms = bench.settings, engines(bench.llm)
    runs = [bench.cell(f"batch {index}", partial(ran, bench, arms, index)) for index in range(settings["batches"])]
    mixes = batches(traces_of(settings["traces"]))
    cells = [
        bench.cell(f"{name}, {batch}", partial(replayed, name, batch, traces, settings))
        for name in settings["surfaces"]
        for batch, traces in mixes.items()
    ]
    gains = [float(np.mean(over(cell, FLEET, ONE))) for cell in cells]
    targets = [
        Target("replayed: acceptance by depth over one acceptance a request, worst cell", ">= 1", min(gains)),
        Target("replayed: fleet over synchronised 5, worst cell", ">= 1",
               min(float(np.mean(over(cell, FLEET, "synchronised 5"))) for cell in cells)),
        Target("replayed: fleet over feedback, worst cell", ">= 1",
               min(float(np.mean(over(cell, FLEET, "feedback"))) for cell in cells)),
        Target("run on this CPU: fleet over plain decoding, worst batch", ">= 0.98",
               min(pooled([over(cell, FLEET, PLAIN)]) for cell in runs)),
        Target("batches on which the arms did not all write the same text", "== 0",
               sum(cell["texts"] != 1 for cell in runs)),
    ]  # fmt: skip
    return Findings(targets, [replay_table(cells), run_table(runs, settings)])


SUITE = Suite(
    name="fleet",
    summary=__doc__.splitlines()[0],
    settings={
        "traces": "cpu-sparse_acceptance.json",
        "surfaces": list(SURFACES),
        "seeds": 2,
        "steps": 300,
        "warm_up": 60,
        "prompt": 3000,
        "rows": 2,
        "batches": 1,
        "rounds": 3,
        "tokens": 32,
        "sampling": SAMPLING,
    },
    quick={
        "traces": None,
        "surfaces": ["8B cost, 64 x 8K"],
        "seeds": 1,
        "steps": 40,
        "warm_up": 5,
        "prompt": 300,
        "batches": 1,
        "rounds": 2,
        "tokens": 12,
    },
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, ROOT))

"""Long random soaks of the engine: is every request as if it ran alone, and is nothing left over?

Prompts of random ids (1 to 6,000 tokens, half of them beginning alike), arrivals, sampling settings, stops and seeds at
random; cancellations in any phase; forced preemptions (`glimpse.bench.soak`). Soaks take turns over the drafters; every
other one has pages for two requests of full length only, which are not all promised, so that requests are put back.
With `--device cuda` the engine of a GPU is soaked, for `--seconds` (`benchmarks.gpu_soak`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.soak import Mix, soak
from glimpse.llm import LLM

ARMS = (
    {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 4},
    {"drafter": "sparse", "pacer": "entropy"},
    {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 5, "acceptance": "matched"},
    {"drafter": "none", "pacer": "fixed"},
)
SHOWN = ("length", "stop", "abort", "preempted", "tokens", "drafted", "accepted", "steps")


@contextmanager
def pages(llm: LLM, count: int) -> Iterator[None]:
    """A cache of so many pages."""
    pool = llm.loaded.pool
    taken = pool.allocate(max(0, pool.free_pages - count), 0)
    try:
        yield
    finally:
        pool.release(taken)


def one(bench: Bench, seed: int) -> dict:
    """One soak."""
    settings, scarce = bench.settings, seed % 2 == 1
    arm = {**ARMS[seed // 2 % len(ARMS)], "reserve": "next" if scarce else "full"}
    llm, pool = bench.llm.variant(**arm), bench.llm.loaded.pool
    mix = Mix(settings["requests"], settings["longest"], settings["most_tokens"])
    most = 2 * pool.pages_for(mix.longest + mix.most_tokens) if scarce else pool.pages
    with pages(llm, most):
        found = soak(llm, bench.llm.variant(prefix_reuse=False), mix, seed)
    for fault in found.faults:
        bench.say(f"seed {seed}: {fault}")
    return {"seed": seed, "arm": arm, "pages": most, "counts": dict(found.counts), "faults": found.faults}


def body(bench: Bench) -> Findings:
    cells = [bench.cell(f"seed {seed}", lambda seed=seed: one(bench, seed)) for seed in range(bench.settings["seeds"])]
    total = sum((Counter(cell["counts"]) for cell in cells), Counter())
    rows = [
        [str(cell["seed"]), cell["arm"]["drafter"], cell["arm"]["reserve"], f"{cell['pages']:,}"]
        + [f"{cell['counts'].get(name, 0):,}" for name in SHOWN]
        for cell in cells
    ]
    faults = sum(len(cell["faults"]) for cell in cells)
    return Findings(
        targets=[
            Target("requests with other tokens than alone, and things left over", "== 0", faults),
            Target("requests that ended by themselves", ">= 1", total["length"] + total["stop"]),
            Target("requests put back into the queue", ">= 1", total["preempted"]),
            Target("requests cancelled", ">= 1", total["abort"]),
        ],
        tables=[Table("Soaks", ("seed", "drafter", "reserve", "pages", *SHOWN), rows)],
    )


SUITE = Suite(
    name="soak",
    summary=__doc__.splitlines()[0],
    settings={"seeds": 10, "requests": 64, "longest": 6000, "most_tokens": 128},
    quick={"seeds": 2, "requests": 6, "longest": 60, "most_tokens": 12},
    body=body,
)

if __name__ == "__main__":
    if "cuda" in sys.argv:
        from benchmarks.gpu_soak import main as on_gpu

        sys.exit(on_gpu())
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))

"""Long random soaks of the GPU's engine: every request must be as it is alone and plain, near ties apart.

    PYTHONPATH=src python3 -m benchmarks.soak --device cuda --model demo.gguf --ids ids.npz --seconds 300 --out OUT \
        --commit COMMIT

The soaks of `benchmarks.soak` (64 requests of up to 6,000 tokens, cancellations, preemptions), over the arms below;
none begins after SECONDS. One request in four is plainly decoded by itself for reference, the others together. A
difference is a near tie where the plain path, teacher-forced, was no further from the other token than rounding may
carry it: what logits move by, fixed beforehand for bfloat16 (`bench.decode.ties.MOVES`),
else `bench.judge.rounding_limit` of that very text. What is fixed was measured on real text, and logits after random
ids move further (one of 128 requests was beyond it), so that bfloat16 takes its prompts from IDS.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.soak import SHOWN, pages
from glimpse import LLM, SamplingParams
from glimpse.bench import environment
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.ties import MOVES
from glimpse.bench.judge import margin, rounding_limit
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.bench.soak import Gap, Mix, Source, soak, windows
from glimpse.errors import ArgumentError

ARMS = (
    {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 5},
    {"drafter": "sparse", "pacer": "fleet"},
    {"drafter": "sparse", "pacer": "entropy"},
    {"drafter": "sparse", "pacer": "synchronised"},
    {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 4},
)
ALONE = 4
"""Of so many requests one is decoded by itself for reference, the others together."""
TEXTS = 64
"""Places of IDS that prompts are taken from."""
COLUMNS = ("seed", "drafter", "pacer", "reserve", "seconds", "compared", "near ties", "faults", *SHOWN)


def gap(
    plain: LLM, prompt: list[int], params: SamplingParams, right: tuple[int, ...], got: tuple[int, ...]
) -> Gap | None:
    """What lies at the first token that differs; None for a text that is only shorter or longer."""
    at = next((place for place, (a, b) in enumerate(zip(right, got, strict=False)) if a != b), None)
    if at is None:
        return None
    moves = MOVES.get(plain.loaded.checkpoint.decoder.dtype)
    limit = rounding_limit(plain, [*prompt, *right[:at]]) if moves is None else 2 * moves
    # Below 0 where the other token was the better one: what was decoded together is not always right either.
    return Gap(abs(margin(plain, prompt, right, at, got[at], params)), limit / (params.temperature or 1.0))


def one(llm: LLM, mix: Mix, seed: int, source: Source | None) -> dict[str, Any]:
    """One soak, in the form of a result file."""
    begun, scarce = time.perf_counter(), seed % 2 == 1
    arm = {**ARMS[seed // 2 % len(ARMS)], "reserve": "next" if scarce else "full"}
    plain, pool = llm.variant(prefix_reuse=False), llm.loaded.pool
    most = 2 * pool.pages_for(mix.longest + mix.most_tokens) if scarce else pool.pages
    with pages(llm, most):
        found = soak(llm.variant(**arm), plain, mix, seed, partial(gap, plain), source, alone=ALONE)
    return {"seed": seed, "arm": arm, "pages": most, "seconds": time.perf_counter() - begun,
            "counts": dict(found.counts), "nearest": found.nearest, "faults": found.faults}  # fmt: skip


def result_of(runs: list[dict[str, Any]], settings: dict[str, Any], commit: str | None, device: torch.device) -> Result:
    """The result file of what has been soaked so far."""
    total = sum((Counter(run["counts"]) for run in runs), Counter())
    faults = sum(len(run["faults"]) for run in runs)
    targets = [
        Target("requests with other tokens than alone (near ties apart), and things left over", "== 0", faults),
        Target("requests put back into the queue", ">= 1", total["preempted"]),
        Target("requests cancelled", ">= 1", total["abort"]),
    ]
    rows = [
        [str(run["seed"]), run["arm"]["drafter"], run["arm"]["pacer"], run["arm"]["reserve"], f"{run['seconds']:.0f}"]
        + [f"{run['counts'].get(name, 0):,}" for name in ("compared", "near ties")]
        + [str(len(run["faults"])), *(f"{run['counts'].get(name, 0):,}" for name in SHOWN)]
        for run in runs
    ]
    known, dirty = environment.known_commit(environment.source_root(), commit)
    return Result(
        suite="soak", device=environment.device_of(device), versions=environment.versions(), commit=known, dirty=dirty,
        quick=False, settings=settings, runs=runs, targets=[target.noted(None) for target in targets],
        tables=[Table("Soaks of the device engine", COLUMNS, rows)],
    )  # fmt: skip


def options(arguments: list[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("-m", "--model", default="demo")
    parser.add_argument("--dtype", default="bfloat16", help="float32: nearly all texts must be equal outright")
    parser.add_argument(
        "--seconds", type=float, default=300, help="no soak but the first begins after so many (default 300)"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1000, help="at most so many soaks")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--longest", type=int, default=6000, help="prompt tokens, at most")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of an output, at most")
    parser.add_argument("--rows", type=int, default=16, help="requests at once, at most")
    parser.add_argument("--ids", type=Path, help=".npz, prompts' token ids (default, not for bfloat16: random)")
    parser.add_argument("--out", type=Path, help="folder for the result file")
    parser.add_argument("--commit", help="the commit soaked, where git is not there to ask")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """One line a soak; the exit code is 1 where anything was wrong."""
    given, runs, begun = options(arguments), list[dict[str, Any]](), time.perf_counter()
    mix = Mix(given.requests, given.longest, given.tokens)
    if given.ids is None and given.dtype == "bfloat16":
        raise ArgumentError("bfloat16 needs --ids: the limit of its near ties was measured on real text")
    llm = LLM(
        given.model, drafter="none", pacer="fixed", device=given.device, dtype=given.dtype,
        max_batch_size=given.rows, max_context=given.longest + given.tokens, seed=0,
    )  # fmt: skip
    settings = {"model": llm.settings["model"], "dtype": given.dtype, "rows": given.rows, "requests": given.requests,
                "longest": given.longest, "most_tokens": given.tokens,
                "prompts": given.ids.name if given.ids else "random ids"}  # fmt: skip
    source = windows(Text(ids=given.ids).prompts(llm.tokenizer, given.longest, TEXTS)) if given.ids else None
    for seed in range(given.first, given.first + given.seeds):
        if runs and time.perf_counter() - begun > given.seconds:
            break
        runs.append(one(llm, mix, seed, source))
        print(json.dumps(runs[-1])[:4000], flush=True)
        if given.out:
            write_result(result_of(runs, settings, given.commit, torch.device(given.device)), given.out)
    total = sum((Counter(run["counts"]) for run in runs), Counter())
    faults = sum(len(run["faults"]) for run in runs)
    print(f"{len(runs)} soaks, {total['compared']} requests compared, {total['near ties']} near ties, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())

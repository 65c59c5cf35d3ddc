"""Host time of the device engine that is not hidden behind the GPU: its steps' wall time against bare graph replays.

    python3 benchmarks/gpu_host.py --rows 1,8,64 --context 2000 [--model demo.gguf]

Without a model a random one of the demo's shape is made: host time does not depend on what is written.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from glimpse import LLM, SamplingParams
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.engine.device.settings import Learn

STEPS, REPEATS = 24, 3
ARMS: dict[str, dict[str, Any]] = {
    "plain": {"drafter": "none", "pacer": "fixed"},
    "fixed 4": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 4, "budget": 0.01, "budget_floor": 512},
    "entropy": {"drafter": "sparse", "pacer": "entropy", "draft_tokens": 8, "budget": 0.01, "budget_floor": 512},
    "fleet": {"drafter": "sparse", "pacer": "fleet", "draft_tokens": 8, "budget": 0.01, "budget_floor": 512},
}

PACED = ("entropy", "fleet")
"""Arms whose steps are not all alike."""


def random_model(folder: Path) -> Path:
    """SmolLM2-135M's shape with random weights."""
    from tiny import write_tiny_checkpoint

    return write_tiny_checkpoint(
        folder / "random", dtype=torch.bfloat16, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, head_dim=64, vocab_size=49152, dead_ids=49152 - 300,
        max_position_embeddings=8192, torch_dtype="bfloat16",
    )  # fmt: skip


def wall_seconds(engine: Any, steps: int) -> float:
    """Seconds of a step of the running engine."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        engine.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps


def bare_seconds(engine: Any, rows: int, drafts: int, steps: int) -> float:
    """Seconds of the same graphs replayed without the host's part; the rows run on, unread."""
    launcher, learn = engine._launcher, Learn.ADD if drafts else Learn.NOTHING
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        if drafts:
            launcher.draft(rows, drafts)
        launcher.verify(rows, drafts, learn)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps


def measure(llm: LLM, rows: int, context: int, arm: str, *, profile: bool) -> dict[str, Any]:
    """One arm at one batch."""
    device = llm.variant(**ARMS[arm])
    engine = device._engine
    words = "the quick brown fox jumps over the lazy dog and runs away "
    ids = (llm.tokenizer.encode(words * 400) * 20)[: context + rows]
    law = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "ignore_eos": True, "max_tokens": 2000}
    prompts = [ids[row : row + context] for row in range(rows)]
    params = [SamplingParams(seed=row, **law) for row in range(rows)]
    requests = device._requests(prompts, params)
    for request in requests:
        engine.add(request)
    while not all(len(request.committer.token_ids) > 8 for request in requests):
        engine.step()
    repeats = 10 if arm in PACED else REPEATS  # their ever new lengths are captured in the first ones
    walls = [wall_seconds(engine, STEPS) for _ in range(repeats)]
    written = sum(len(request.committer.token_ids) for request in requests)
    found: dict[str, Any] = {"rows": rows, "context": context, "arm": arm, "wall_ms": 1e3 * median(walls)}
    found["walls_ms"] = [round(1e3 * wall, 3) for wall in walls]
    if arm not in PACED:
        drafts = ARMS[arm].get("draft_tokens", 0)
        bares = [bare_seconds(engine, rows, drafts, 8) for _ in range(REPEATS)]
        found |= {"bare_ms": 1e3 * median(bares), "not_hidden": 1 - median(bares) / median(walls)}
    found |= {"written": written, **engine.facts, "lengths": dict(requests[0].speculation.draft_lengths)}
    if profile and arm in PACED:
        watch = cProfile.Profile()
        watch.runcall(wall_seconds, engine, STEPS)
        pstats.Stats(watch).sort_stats("tottime").print_stats(16)
    for request in requests:
        engine.cancel(request)
    return found


def result_of(runs: list[dict[str, Any]], commit: str, model: str, device: dict[str, Any]) -> Result:
    """The result file: the share of a step that the host adds, against the target of 5%."""
    import transformers

    versions = {"python": platform.python_version(), "torch": torch.__version__,
                "transformers": transformers.__version__, "glimpse": "0.1.0"}  # fmt: skip
    timed = [run for run in runs if "not_hidden" in run]
    targets = [
        Target(f"{name_of(run)}: host time not hidden, %", "<= 5", 100 * run["not_hidden"]).noted("see docs")
        for run in timed
    ]
    rows = [
        (name_of(run), f"{run['wall_ms']:.3f}", f"{run['bare_ms']:.3f}", f"{100 * run['not_hidden']:.1f}")
        for run in timed
    ]
    columns = ("context, rows, drafts", "wall ms a step or round", "bare replays, ms", "not hidden, %")
    return Result(
        suite="host", device=device, versions=versions, commit=commit, dirty=False, quick=False,
        settings={"model": model, "steps": STEPS, "temperature": 0.7, "top_k": 50, "top_p": 0.9}, runs=runs,
        targets=targets, tables=[Table("Host time of the GPU engine", columns, rows)],
    )  # fmt: skip


def name_of(run: dict[str, Any]) -> str:
    """Context, rows and arm."""
    return f"{run['context']}x{run['rows']} {run['arm']}"


def here() -> dict[str, Any]:
    """The device in the form of a result file."""
    return {"kind": "h200", "name": torch.cuda.get_device_name(), "cores": os.cpu_count() or 0, "threads": 1}


def main() -> None:
    """Prints one line an arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rows", default="1,8,64")
    parser.add_argument("--context", type=int, default=2000)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--out", type=Path, help="folder for the result file")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--profile", action="store_true", help="print where the host's time goes")
    given = parser.parse_args()
    rows = [int(count) for count in given.rows.split(",")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or random_model(Path(folder))
        llm = LLM(model, drafter="none", pacer="fixed", device="cuda", max_batch_size=max(rows), seed=0)
        for count in rows:
            for arm in given.arms.split(","):
                results.append(measure(llm, count, given.context, arm, profile=given.profile))
                print(json.dumps(results[-1]), flush=True)
                if given.out:
                    name = "demo" if given.model else "random weights of the demo's shape"
                    write_result(result_of(results, given.commit, name, here()), given.out)


if __name__ == "__main__":
    main()

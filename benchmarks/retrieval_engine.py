"""Tokens a step and speed of retrieval drafters through the engine, on everyday prompts, beside plain decoding.

    python -m benchmarks.retrieval_engine [--tokens 64] [--document 1500] [--rounds 1] [--kinds chat,edit]

One thread, and seconds of CPU time instead of the clock's, for the pacers too: so a busy machine matters little, and a
quiet one with more threads may draft differently. The first round warms up and does not count.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from statistics import median

from glimpse import LLM, SamplingParams
from glimpse.bench.texts import everyday_prompts

MODES = {
    "greedy": {"temperature": 0.0, "ignore_eos": True},
    "T=0.7": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3, "ignore_eos": True},
}
ARMS = {
    "none": ("none", "fixed", None),
    "lookup": ("lookup", "entropy", None),
    "suffix": ("suffix", "marginal", None),
    "racer": ("racer", "marginal", None),
    "racer+suffix": ("racer+suffix", "marginal", None),
    "racer, 16 nodes": ("racer", "fixed", 16),
    "racer+suffix, 16 nodes": ("racer+suffix", "fixed", 16),
}


def measure(llm: LLM, ids: list[int], settings: dict, tokens: int) -> tuple[tuple[int, ...], float, float, float]:
    """The text, tokens a second, tokens a step and nodes a step."""
    out = llm.generate([ids], SamplingParams(**settings, max_tokens=tokens))[0]
    spoken, written = out.speculation, len(out.token_ids) - 1  # the first token is the prefill's
    steps = spoken.rounds + spoken.plain_steps
    return out.token_ids, out.timing.tokens_per_s, written / steps, spoken.drafted / steps


def cell(arms: dict[str, LLM], ids: list[int], settings: dict, options: argparse.Namespace) -> list[str]:
    """One line an arm."""
    found = {name: [] for name in arms}
    for turn in range(options.rounds + options.warm_up):
        for name, llm in arms.items():
            run = measure(llm, ids, settings, options.tokens)
            if turn >= options.warm_up:
                found[name].append(run)
    plain = found["none"]
    lines = []
    for name, runs in found.items():
        ratio = median(own[1] / other[1] for own, other in zip(runs, plain, strict=True))
        same = all(run[0] == plain[0][0] for run in runs)
        values = f"{runs[0][2]:5.2f} tokens a step, {runs[0][3]:5.1f} nodes a step, {ratio:5.2f} times plain"
        lines.append(f"{name:24}{values}{'' if same else ', ANOTHER TEXT'}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.retrieval_engine", description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--document", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--kinds", default="document,chat,code,edit,free text")
    parser.add_argument("--arms", default=";".join(ARMS))
    options = parser.parse_args()
    time.perf_counter = time.process_time
    plain = LLM("demo", drafter="none", pacer="fixed", dtype="float32", device="cpu", threads=1)
    prompts = everyday_prompts(plain.tokenizer, options.document)
    chosen = {name: ARMS[name] for name in options.arms.split(";")}
    arms = {name: plain.variant(drafter=d, pacer=p, draft_tokens=n) for name, (d, p, n) in chosen.items()}
    for kind in options.kinds.split(","):
        with plain.pinned(prompts[kind]) as ids:
            for mode, settings in MODES.items():
                print(f"{kind}, {mode}", *cell(arms, ids, settings, options), sep="\n    ", flush=True)
        print(f"    load {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()

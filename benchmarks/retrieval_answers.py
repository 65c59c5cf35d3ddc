"""Writes what `retrieval_acceptance` reads: answers of the demo model with the 8 likeliest successors at each position.

    python -m benchmarks.retrieval_answers FOLDER [--questions FOLDER] [--tokens 200]

One file an answer, named after its set and the question's line: plain decoding, greedy and at T=0.7, top-k 50, top-p
0.9. What is there already is not made again. The sets come in turn, so that a run cut short has some of each.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from glimpse import LLM, SamplingParams
from glimpse.errors import GlimpseError

ROOT = Path(__file__).resolve().parents[1]
SETS = {"spec_bench": 32, "human_eval": 20, "gsm8k": 20, "mgsm": 20}
"""How many questions of each set, spread evenly over it."""
MODES = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3},
}
WIDTH = 8
LONGEST = 1900
"""Tokens of a prompt; longer ones are left out."""


def questions(folder: Path, name: str, count: int) -> list[tuple[str, str]]:
    """Names ("gsm8k-0012", by line) and first turns of `count` questions of a set, evenly spread."""
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = list(enumerate(lines))[:: len(lines) // count][:count]
    return [(f"{name}-{place:04}", json.loads(line)["turns"][0]) for place, line in chosen]


def prompts(llm: LLM, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Questions of all sets in turn, first turns, chat template on."""
    sets = [questions(folder, name, count) for name, count in SETS.items()]
    for name, text in chain.from_iterable(zip_longest(*sets, fillvalue=("", ""))):
        if name:
            yield name, llm.tokenizer.chat([{"role": "user", "content": text}])


def successors(llm: LLM, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """[len(ids), 8] likeliest tokens after each position and their probabilities; 0 after the last."""
    asked = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=WIDTH)
    tokens, chances = np.zeros((len(ids), WIDTH), np.int64), np.zeros((len(ids), WIDTH), np.float32)
    for place, entry in enumerate(llm.generate([ids], asked)[0].prompt_logprobs):
        for rank, (token, logprob) in enumerate(entry.top[:WIDTH] if entry else ()):
            tokens[place - 1, rank], chances[place - 1, rank] = token, math.exp(logprob)
    return tokens, chances


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.retrieval_answers", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=Path, default=ROOT.parent / "shared" / "data" / "questions")
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    if not options.questions.is_dir():
        raise GlimpseError(f"no folder {options.questions}: give one with {', '.join(SETS)}.jsonl (--questions)")
    options.folder.mkdir(parents=True, exist_ok=True)
    llm = LLM("demo", drafter="none")
    for name, prompt in prompts(llm, options.questions):
        for mode, settings in MODES.items():
            path = options.folder / f"{name}-{mode}.npz"
            if path.exists() or len(prompt) > LONGEST:
                continue
            output = llm.generate([prompt], SamplingParams(**settings, max_tokens=options.tokens))[0].token_ids
            tokens, chances = successors(llm, [*prompt, *output])
            facts = {"name": name.rpartition("-")[0], "mode": mode, "prompt": prompt, "output": output}
            np.savez(path, successors=tokens, chances=chances, **facts)
            print(path.name, len(prompt), len(output), flush=True)


if __name__ == "__main__":
    main()

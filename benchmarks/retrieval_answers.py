"""Writes what `retrieval_acceptance` reads: answers of the demo model with the 8 likeliest successors at each position.

    python -m benchmarks.retrieval_answers FOLDER [--questions FOLDER] [--tokens 200]

One file an answer, plain decoding, greedy and at T=0.7, top-k 50, top-p 0.9. What is there already is not made again.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from glimpse import LLM, SamplingParams
from glimpse.bench.texts import everyday_prompts
from glimpse.errors import GlimpseError

ROOT = Path(__file__).resolve().parents[1]
SETS = {"spec_bench": 32, "human_eval": 10, "gsm8k": 10, "mgsm": 10}
"""How many questions of each set, spread evenly over it."""
MODES = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3},
}
WIDTH = 8
LONGEST = 1900
"""Tokens of a prompt; longer ones are left out."""


def prompts(llm: LLM, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Everyday prompts and questions, each set's first turns, chat template on."""
    yield from everyday_prompts(llm.tokenizer, document=1500).items()
    for name, count in SETS.items():
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        for line in lines[:: len(lines) // count][:count]:
            yield name, llm.tokenizer.chat([{"role": "user", "content": json.loads(line)["turns"][0]}])


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
    for index, (name, prompt) in enumerate(prompts(llm, options.questions)):
        for mode, settings in MODES.items():
            path = options.folder / f"{index:03}-{mode}.npz"
            if path.exists() or len(prompt) > LONGEST:
                continue
            output = llm.generate([prompt], SamplingParams(**settings, max_tokens=options.tokens))[0].token_ids
            tokens, chances = successors(llm, [*prompt, *output])
            facts = {"name": name, "mode": mode, "prompt": prompt, "output": output}
            np.savez(path, successors=tokens, chances=chances, **facts)
            print(path.name, name, len(prompt), len(output), flush=True)


if __name__ == "__main__":
    main()

"""Writes the prompts of `gpu_retrieval` as token ids, for a machine that has no questions: one array a prompt.

    python -m benchmarks.gpu_retrieval_ids ids.npz [--questions FOLDER] [--each 8]

First turns of Spec-Bench, HumanEval, GSM8K and MGSM, spread evenly over each set, the demo model's chat template on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from glimpse.errors import GlimpseError
from glimpse.model import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
SETS = ("spec_bench", "human_eval", "gsm8k", "mgsm")
LONGEST = 1024
"""Tokens of a prompt; longer ones are left out."""


def prompts(tokenizer: Tokenizer, folder: Path, name: str, count: int) -> list[list[int]]:
    """`count` prompts of one set."""
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    turns = [json.loads(line)["turns"][0] for line in lines]
    asked = [tokenizer.chat([{"role": "user", "content": turn}]) for turn in turns]
    short = [ids for ids in asked if len(ids) <= LONGEST]
    return short[:: max(1, len(short) // count)][:count]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_retrieval_ids", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--questions", type=Path, default=ROOT.parent / "shared" / "data" / "questions")
    parser.add_argument("--each", type=int, default=8, help="prompts of each set")
    parser.add_argument("--model", default="demo", help="whose tokenizer")
    options = parser.parse_args()
    if not options.questions.is_dir():
        raise GlimpseError(f"no folder {options.questions}: give one with {', '.join(SETS)}.jsonl (--questions)")
    from glimpse import LLM

    tokenizer = LLM(options.model, drafter="none", pacer="fixed", device="cpu", max_context=64).tokenizer
    found = {
        f"{name}-{place:03}": np.array(ids, np.int32)
        for name in SETS
        for place, ids in enumerate(prompts(tokenizer, options.questions, name, options.each))
    }
    np.savez_compressed(options.file, **found)
    print(
        f"{options.file}: {len(found)} prompts, {min(map(len, found.values()))} to {max(map(len, found.values()))} ids"
    )


if __name__ == "__main__":
    main()

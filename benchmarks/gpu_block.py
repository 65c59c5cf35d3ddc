"""Trains block adapters by several recipes on one GPU and tells what they are worth on text they never saw.

    PYTHONPATH=src python3 benchmarks/gpu_block.py --model demo.gguf --ids books.npz --questions questions.npz \
        --work FOLDER --out FOLDER --commit HASH [--seconds 600] [--variants base,rank16]

`--ids` holds token ids of real text, `--questions` prompts, one array each (`gpu_retrieval_ids`). First the model's own
outputs are written into WORK/texts: answers to all questions but every fourth, which are for judging. Then each
variant is trained, the same as

    glimpse train block -m demo.gguf --text WORK/texts --out WORK/VARIANT.safetensors [the variant's options]

and judged: held-out text as `glimpse train block` reports it, and blocks accepted by the engine on the questions left
out, greedy and at T=0.7, beside lookup and racer. A variant that was trained or judged is not again, an interrupted
training goes on. No training goes on after --seconds. Nothing is said of speed here: `gpu_block_speed`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glimpse import LLM, SamplingParams
from glimpse.bench.environment import device_of, known_commit, source_root, versions
from glimpse.bench.folder import script_in
from glimpse.bench.journal import Journal
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.bench.stats import distinct_share
from glimpse.outputs import GenerationOutput
from glimpse.training.loop import Point, Trainer
from glimpse.training.recipe import Recipe
from glimpse.training.texts import read_corpus

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "no calibrator": {"inner": 0},
    "narrow calibrator": {"inner": 256},
    "rank 16": {"rank": 16},
    "rank 256": {"rank": 256},
    "5 layers": {"layers": 5},
    "10 layers": {"layers": 10},
    "30 layers": {"layers": 30, "rank": 48},
    "blocks of 15": {"size": 15},
    "decay 2": {"decay": 2.0},
    "decay 8": {"decay": 8.0},
    "rate 1e-3": {"rate": 1e-3},
    "rate 6e-3": {"rate": 6e-3},
    "text only": {"distil": 0.0},
    "laws only": {"distil": 1.0},
    "few branches": {"branches": 32},
    "short": {"length": 256, "sequences": 64, "branches": 24},
    "long": {"length": 4096, "sequences": 4},
    "10,000 steps": {"steps": 10_000},
}
LAWS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "T=0.7": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3},
}
OTHERS: dict[str, dict[str, Any]] = {
    "lookup": {"drafter": "lookup", "pacer": "fixed"},
    "racer": {"drafter": "racer", "pacer": "marginal"},
}
LEFT_OUT = 4
"""Every so manieth question is for judging."""
LARGEST_FILE = 20.0
COLUMNS = ("recipe", "steps", "held-out loss", "held-out accepted", "greedy", "T=0.7", "MB", "train s")


def prepare(llm: LLM, options: argparse.Namespace) -> list[list[int]]:
    """Writes the texts that are not there yet; returns the prompts left out."""
    texts = options.work / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    questions = questions_of(options.questions)
    if not (texts / "books.npy").exists():
        with np.load(options.ids) as stored:
            np.save(texts / "books.npy", np.concatenate([stored[name].ravel() for name in stored.files]))
    if not (texts / "own.npy").exists():
        asked = [ids for place, ids in enumerate(questions) if place % LEFT_OUT] * options.answers
        np.save(texts / "own.npy", np.array(answers(llm, asked, options.tokens)))
    return questions[::LEFT_OUT]


def questions_of(path: Path) -> list[list[int]]:
    """All prompts of a file, by name."""
    with np.load(path) as stored:
        return [stored[name].astype(np.int64).tolist() for name in sorted(stored.files)]


def answers(llm: LLM, prompts: Sequence[list[int]], tokens: int) -> list[int]:
    """What the model says to prompts, one greedy in three, with the prompts, as one text."""
    params = [
        SamplingParams(max_tokens=tokens, **(LAWS["greedy"] if place % 3 == 0 else LAWS["T=0.7"] | {"seed": place}))
        for place in range(len(prompts))
    ]
    outs = llm.generate(prompts, params)
    return [token for ids, out in zip(prompts, outs, strict=True) for token in (*ids, *out.token_ids)]


def settings_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a variant changes of the recipe."""
    steps = {"steps": options.steps} if options.steps else {}
    return VARIANTS[name] | steps | options.set


def train(llm: LLM, name: str, options: argparse.Namespace, seconds: float) -> list[tuple[float, float, int]] | None:
    """Trains one variant, for so long; what its confidences are worth (`Trainer.reliability`) when it is done."""
    checkpoint, recipe = llm.loaded.checkpoint, Recipe(**settings_of(name, options))
    corpus = read_corpus(options.work / "texts", checkpoint.tokenizer, recipe.length, checkpoint.spec.vocab_size)

    def hear(point: Point) -> None:
        print(f"{name}: {point.step} steps, loss {point.loss:.3f}, held out {point.held_loss:.3f}, "
              f"accepted {point.accepted:.2f}, {dict(point.accepted_by_text)}", flush=True)  # fmt: skip

    trainer = Trainer(checkpoint, corpus, recipe, adapter_of(name, options))
    return trainer.reliability() if trainer.run(hear, every=250, seconds=seconds) else None


def adapter_of(name: str, options: argparse.Namespace) -> Path:
    """The file of a variant's adapter."""
    found: Path = options.work / f"{name.replace(' ', '-').replace(',', '')}.safetensors"
    return found


def accepted(outs: Sequence[GenerationOutput]) -> dict[str, Any]:
    """What verified drafts were worth over several outputs."""
    counts = [out.speculation for out in outs]
    rounds = sum(one.rounds for one in counts)
    return {
        "accepted_a_round": sum(one.accepted for one in counts) / rounds if rounds else 0.0,
        "rounds": rounds,
        "plain_steps": sum(one.plain_steps for one in counts),
        "distinct_4_grams": float(np.mean([distinct_share(list(out.token_ids), 4) for out in outs])),
    }


def judge(llm: LLM, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """A drafter on prompts, by law."""
    return {
        law: accepted(llm.generate(prompts, SamplingParams(max_tokens=tokens, **settings)))
        for law, settings in LAWS.items()
    }


def measure(llm: LLM, options: argparse.Namespace, journal: Journal) -> None:
    """Everything that is not in the journal yet and fits the time."""
    started = time.perf_counter()
    prompts = prepare(llm, options)
    for name, settings in OTHERS.items():
        if name not in journal.cells:
            journal.add(name, judge(llm.variant(**settings), prompts, options.tokens))
    for name in options.variants:
        left = options.seconds - (time.perf_counter() - started)
        if name in journal.cells or left <= 0:
            continue
        reliability = train(llm, name, options, left)
        if reliability is not None:
            file = adapter_of(name, options)
            block = llm.variant(drafter="block", adapter=str(file), pacer="fixed", draft_tokens=64)
            last = json.loads(file.with_name(f"{file.name}.log").read_text().splitlines()[-1])
            facts = {"point": last, "megabytes": file.stat().st_size / 1e6, "recipe": settings_of(name, options),
                     "reliability": reliability}  # fmt: skip
            journal.add(name, facts | judge(block, prompts, options.tokens))


def result_of(llm: LLM, options: argparse.Namespace, journal: Journal) -> Result:
    """The result file."""
    commit, dirty = known_commit(source_root(), options.commit)
    runs = list(journal.cells.values())
    trained = [run for run in runs if "point" in run]
    rows = [
        (run["cell"], str(run["point"]["step"]), f"{run['point']['held_loss']:.3f}", f"{run['point']['accepted']:.2f}",
         *(f"{run[law]['accepted_a_round']:.2f}" for law in LAWS), f"{run['megabytes']:.1f}",
         f"{run['point']['seconds']:.0f}")
        for run in trained
    ] + [
        (run["cell"], "", "", "", *(f"{run[law]['accepted_a_round']:.2f}" for law in LAWS), "", "")
        for run in runs if "point" not in run
    ]  # fmt: skip
    targets = [
        Target(f"{run['cell']}: adapter, MB", f"<= {LARGEST_FILE:g}", run["megabytes"]).noted(None) for run in trained
    ]
    return Result(
        suite="block", device=device_of(llm.loaded.checkpoint.decoder.device), versions=versions(), commit=commit,
        dirty=dirty, quick=bool(options.set), settings={"tokens": options.tokens, "answers": options.answers},
        runs=runs, targets=targets, tables=[Table("Block adapters, drafts accepted a verified block", COLUMNS, rows)],
    )  # fmt: skip


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True, help=".npz, token ids of real text")
    parser.add_argument("--questions", type=Path, required=True, help=".npz, token ids of prompts")
    parser.add_argument("--work", type=Path, required=True, help="folder for texts and adapters")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file")
    parser.add_argument("--commit")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=480.0, help="no training goes on after them")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(VARIANTS))
    parser.add_argument("--tokens", type=int, default=300, help="of an answer")
    parser.add_argument("--answers", type=int, default=24, help="to each question, for training")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, help="of every recipe, to compare many in short")
    parser.add_argument("--set", type=json.loads, default={}, help="JSON: recipe settings for all, a trial run")
    options = parser.parse_args(argv)
    unknown = [name for name in options.variants if name not in VARIANTS]
    if unknown:
        parser.error(f"unknown variant {unknown[0]!r}; known: {', '.join(VARIANTS)}")
    return options


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, judges, writes the result."""
    options = parsed(argv)
    with script_in(options.work, "block"):
        run(options)


def run(options: argparse.Namespace) -> None:
    """All of it, in folders that no other run writes."""
    llm = LLM(
        options.model, drafter="none", pacer="fixed", device=options.device, max_batch_size=options.rows,
        max_context=options.tokens + 1024,
    )  # fmt: skip
    header = {"suite": "block", "commit": options.commit, "tokens": options.tokens, "set": options.set,
              "steps": options.steps}  # fmt: skip
    journal = Journal(options.work / "journal.jsonl", header)
    measure(llm, options, journal)
    print(write_result(result_of(llm, options, journal), options.out))


if __name__ == "__main__":
    main()

"""How much of a trained adapter's blocks is accepted on text it never saw, beside sparse, racer and lookup.

    python -m benchmarks.block_acceptance --questions questions.npz --texts FOLDER [--adapter FILE]

`--questions` holds prompts as `gpu_retrieval_ids` writes them; every fourth was left out of the training (`gpu_block`)
and is asked here. FOLDER is what was trained on, .npy files alone; of its sequences that were held out the first tokens
are prompts too. All text is the model's own, plain. A block is recorded at every position (`block_traces`) and followed
as lookup and racer are (`retrieval_arms`): a draft is accepted as far as it is the text, which is exact for greedy text
and for `coupled`. Sparse drafts are counted by the engine; of texts this short they read nearly all. Nothing is timed.
Intervals are bootstrapped over texts. `libra_block` replays pacers over the blocks that are kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.block_traces import Recorded, record, rounds_of
from benchmarks.gpu_block import LAWS, LEFT_OUT
from benchmarks.retrieval_acceptance import SETS, Run, gain, tokens_a_round
from benchmarks.retrieval_answers import successors
from benchmarks.retrieval_arms import Answer, follow
from glimpse import LLM, SamplingParams
from glimpse.bench.grow_adapter import adapter_label
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.bench.texts import digest
from glimpse.drafting.block.adapter import config_of, load_whole, write_adapter
from glimpse.drafting.block.shipped import DEMO
from glimpse.errors import GlimpseError
from glimpse.training.texts import HELD_EVERY

ROOT = Path(__file__).resolve().parents[1]
TOGETHER = 7
"""Texts of a cell."""
BLOCK, LEANING = "block", "block, calibrator left out"
FOLLOWED = {"lookup, chains of 16": ("lookup", 16), "racer, 8 nodes": ("racer", 8), "racer, 64 nodes": ("racer", 64)}
SPARSE = "sparse, 8 drafts"
ARMS = (BLOCK, LEANING, *FOLLOWED, SPARSE)
RIVALS = ("lookup, chains of 16", "racer, 8 nodes")
"""What a block of 8 has to exceed."""
LARGEST = 20.0
"""MB of an adapter that is shipped."""


@dataclass(frozen=True)
class Files:
    """What the command line names."""

    questions: Path
    texts: Path
    adapter: Path


def asked(path: Path, name: str, count: int) -> list[tuple[str, list[int]]]:
    """The first `count` prompts of a set that were left out, with their names."""
    with np.load(path) as stored:
        names = [one for one in sorted(stored.files)[::LEFT_OUT] if one.rpartition("-")[0] == name]
        return [(one, stored[one].astype(np.int64).tolist()) for one in names[:count]]


def held_out(folder: Path, name: str, length: int, prompt: int, count: int) -> list[tuple[str, list[int]]]:
    """Beginnings of `count` sequences of a file that were held out, spread evenly; as `training.texts` cuts them."""
    found, before = [], 0
    for path in sorted(folder.glob("*.npy")):
        ids = np.load(path).ravel()
        sequences = ids[: len(ids) // length * length].reshape(-1, length)
        held = [place for place in range(len(sequences)) if (before + place) % HELD_EVERY == HELD_EVERY // 2]
        before += len(sequences)
        if path.stem == name:
            found = [(f"{name}-{place:04}", sequences[place, :prompt].tolist()) for place in held]
    return found[:: max(1, len(found) // count)][:count]


def uncalibrated(adapter: Path, folder: Path) -> Path:
    """The same adapter, its calibrator adding nothing."""
    _, tensors = load_whole(adapter, "adapter")
    tensors["calibrator.out"] = torch.zeros_like(tensors["calibrator.out"])
    write_adapter(folder / "uncalibrated.safetensors", config_of(adapter), tensors)
    return folder / "uncalibrated.safetensors"


def measured(
    llm: LLM, prompts: Sequence[tuple[str, list[int]]], mode: str, tokens: int, adapter: Path, kept: int
) -> dict:
    """A cell: all arms on some prompts; of the first `kept` the blocks themselves."""
    params = SamplingParams(max_tokens=tokens, **LAWS[mode])
    ids = [own for _, own in prompts]
    texts = record(llm, ids, params, str(adapter))
    with tempfile.TemporaryDirectory() as folder:
        leaning = record(llm, ids, params, str(uncalibrated(adapter, Path(folder))))
    sparse = llm.variant(drafter="sparse", pacer="fixed", draft_tokens=8).generate(ids, params)
    found = []
    for place, ((name, own), text, without, out) in enumerate(zip(prompts, texts, leaning, sparse, strict=True)):
        counts = out.speculation
        runs = {BLOCK: counted(text), LEANING: counted(without)} | followed(llm, own, text)
        runs[SPARSE] = f"{counts.rounds + counts.plain_steps}/{counts.drafted}"
        found.append(
            {"name": name, "prompt": len(own), "digest": digest(own), "tokens": len(text.tokens) - 1, "runs": runs,
             "right": "".join(str(start.right) for start in text.starts),
             "distinct_4grams": distinct_share(text.tokens),
             "starts": [start.as_json() for start in text.starts if place < kept]}
        )  # fmt: skip
    return {"texts": found}


def counted(text: Recorded) -> str:
    """Rounds of a text and verified tokens of its blocks, as "31/128"."""
    rounds = rounds_of(text.starts)
    return f"{len(rounds)}/{sum(verified for verified, _ in rounds)}"


def followed(llm: LLM, prompt: Sequence[int], text: Recorded) -> dict[str, str]:
    """The same of what is drafted on the host; like a block, from the second token on."""
    ids = [*prompt, *text.tokens]
    answer = Answer("", "", len(prompt) + 1, ids, *successors(llm, ids))
    runs = {name: follow(arm, answer, budget) for name, (arm, budget) in FOLLOWED.items()}
    return {name: f"{rounds}/{nodes}" for name, (rounds, _, nodes) in runs.items()}


class Texts:
    """All texts of one mode, by set."""

    def __init__(self, sets: Mapping[str, Sequence[dict]]) -> None:
        self.sets = sets

    def runs(self, arm: str, chosen: Sequence[str]) -> list[Run]:
        """Rounds, tokens and verified drafts of every text."""
        found = [(text["runs"][arm].split("/"), text["tokens"]) for name in chosen for text in self.sets[name]]
        return [(int(rounds), tokens, int(verified)) for (rounds, verified), tokens in found if tokens]

    def over(self, arm: str, other: str, chosen: Sequence[str]) -> tuple[float, float, float]:
        """How many tokens a round more, with a 95% interval."""
        pairs = list(zip(self.runs(arm, chosen), self.runs(other, chosen), strict=True))
        return (gain(pairs), *bootstrap(pairs, gain))

    @property
    def columns(self) -> dict[str, list[str]]:
        """Every set, and all questions."""
        named = {f"{SETS.get(name, name)} ({len(self.sets[name])})": [name] for name in self.sets}
        return named | {"all questions": [name for name in SETS if name in self.sets]}

    @property
    def distinct(self) -> float:
        """Of 4-grams, in the mean of texts."""
        every = [text["distinct_4grams"] for own in self.sets.values() for text in own]
        return sum(every) / len(every)


def lengths(mode: str, texts: Texts) -> Table:
    """Tokens a round."""
    rows = []
    for arm in ARMS:
        each = [tokens_a_round(texts.runs(arm, chosen)) for chosen in texts.columns.values()]
        every = texts.runs(arm, list(texts.sets))
        verified = sum(run[2] for run in every) / sum(run[0] for run in every)
        rows.append([arm, *(f"{value:.2f}" for value in each), f"{verified:.1f}"])
    title = f"Tokens a round, the target's own included, {mode}, {texts.distinct:.0%} of the 4-grams distinct"
    return Table(title, ("drafts", *texts.columns, "verified"), rows)


def gains(mode: str, texts: Texts) -> Table:
    """Blocks over all else."""
    rows = []
    for arm in ARMS[1:]:
        each = [texts.over(BLOCK, arm, chosen) for chosen in texts.columns.values()]
        rows.append([arm, *(f"{mid:+.2f} ({low:+.2f} to {high:+.2f})" for mid, low, high in each)])
    return Table(
        f"Blocks over others, tokens a round (95% interval over texts), {mode}", ("over", *texts.columns), rows
    )


def by_place(modes: Mapping[str, Texts], size: int) -> Table:
    """The share of blocks that are right up to each place, from every position of the text."""
    rows = []
    for mode, texts in modes.items():
        for shown, chosen in texts.columns.items():
            right = [int(count) for name in chosen for text in texts.sets[name] for count in text["right"]]
            shares = [sum(count > place for count in right) / max(1, len(right)) for place in range(size)]
            rows.append([f"{mode}, {shown}", *(f"{share:.3f}" for share in shares), f"{sum(shares):.2f}"])
    return Table("Blocks right up to each place, begun anywhere", ("text", *map(str, range(1, size + 1)), "sum"), rows)


def prompts_of(bench: Bench, files: Files, length: int) -> Iterator[tuple[str, list[tuple[str, list[int]]]]]:
    """Every set with its prompts. Raises GlimpseError for a set that has none."""
    settings = bench.settings
    for name in settings["sets"]:
        found = asked(files.questions, name, settings["questions"])
        yield name, found or missing(files.questions, name)
    for name in settings["files"]:
        found = held_out(files.texts, name, length, settings["prompt"], settings["passages"])
        yield name, found or missing(files.texts, name)


def missing(path: Path, name: str) -> list[tuple[str, list[int]]]:
    """Raises GlimpseError."""
    raise GlimpseError(f"{path} holds nothing of {name!r} that was left out of the training")


Measure = Callable[[list[tuple[str, list[int]]], str, int], dict]
"""measure(some prompts with their names, mode, how many of the set came before) -> {"texts": what each had}."""


def texts_of(bench: Bench, files: Files, measure: Measure) -> dict[str, Texts]:
    """By mode, all sets' texts; a few at a time, so that a run may be broken off and gone on with."""
    length = int(config_of(files.adapter).recipe["length"])
    modes: dict[str, dict[str, list[dict]]] = {mode: {} for mode in LAWS}
    for name, prompts in prompts_of(bench, files, length):
        for mode, sets in modes.items():
            sets[name] = []
            for first in range(0, len(prompts), TOGETHER):
                run = partial(measure, prompts[first : first + TOGETHER], mode, first)
                sets[name] += bench.cell(f"{name} {mode} {first}", run)["texts"]
    return {mode: Texts(sets) for mode, sets in modes.items()}


def body(bench: Bench, files: Files) -> Findings:
    settings, config = bench.settings, config_of(files.adapter)

    def measure(some: list[tuple[str, list[int]]], mode: str, first: int) -> dict:
        return measured(bench.llm, some, mode, settings["tokens"], files.adapter, settings["kept"] - first)

    texts = texts_of(bench, files, measure)
    questions = [name for name in SETS if name in settings["sets"]]
    found = [Target("adapter, MB", f"<= {LARGEST:g}", files.adapter.stat().st_size / 1e6)]
    found += [
        Target(f"{mode}: blocks over {rival}, tokens a round, lower end of the 95% interval", ">= 0",
               own.over(BLOCK, rival, questions)[1])
        for mode, own in texts.items() for rival in RIVALS
    ]  # fmt: skip
    tables = [table(mode, own) for mode, own in texts.items() for table in (lengths, gains)]
    return Findings(found, [*tables, by_place(texts, config.size)])


SETTINGS = {"sets": list(SETS), "questions": 14, "files": ["books", "code"], "passages": 7, "prompt": 512, "tokens": 96}
QUICK = {"sets": ["gsm8k"], "questions": 2, "files": ["books"], "passages": 1, "prompt": 12, "tokens": 12}


def suite(files: Files) -> Suite:
    return Suite(
        name="block_acceptance",
        summary=__doc__.splitlines()[0],
        settings={"adapter": adapter_label(files.adapter), **SETTINGS, "kept": 7},
        quick=QUICK,
        body=partial(body, files=files),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, default=DEMO)
    known, rest = parser.parse_known_args()
    sys.exit(main(suite(Files(known.questions, known.texts, known.adapter)), ROOT, rest))

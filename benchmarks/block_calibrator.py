"""What a trained adapter's calibrator gains: its blocks beside those of one trained the same way without a calibrator.

    python -m benchmarks.block_calibrator --questions questions.npz --texts FOLDER --without FILE [--adapter FILE]

The paper's "bonus-guided calibration" (FlexDraft, arXiv 2605.20022). Both adapters draft at every position of the same
texts, the model's own, written plainly behind the prompts of `block_acceptance`, and rounds are counted as there: a
block wherever one ends, all that is offered of it verified. Intervals are bootstrapped over texts, in pairs. Accepted
lengths only; nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.block_acceptance import QUICK, ROOT, SETTINGS, Files, Texts, by_place, counted, texts_of
from benchmarks.block_traces import record
from benchmarks.gpu_block import LAWS
from benchmarks.retrieval_acceptance import SETS, tokens_a_round
from glimpse import LLM, SamplingParams
from glimpse.bench.grow_adapter import adapter_label
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import digest
from glimpse.drafting.block.adapter import config_of
from glimpse.drafting.block.shipped import DEMO
from glimpse.errors import ArgumentError, GlimpseError

WITH, WITHOUT = "with a calibrator", "trained without"


def check_pair(adapter: Path, without: Path) -> None:
    """Raises ArgumentError unless the two differ in the calibrator alone."""
    one, other = config_of(adapter), config_of(without)
    if not one.inner or other.inner:
        raise ArgumentError(f"{adapter} has a calibrator of {one.inner} and {without} one of {other.inner}, not 0")
    facts = [asdict(own) | {"inner": 0, "recipe": {**own.recipe, "inner": 0}} for own in (one, other)]
    differ = [f"{name} {own!r} and {facts[1][name]!r}" for name, own in facts[0].items() if own != facts[1][name]]
    if differ:
        raise ArgumentError(f"{adapter} and {without} differ in more than the calibrator: {'; '.join(differ)}")


def measured(
    llm: LLM, prompts: Sequence[tuple[str, list[int]]], mode: str, tokens: int, adapters: Mapping[str, Path]
) -> dict:
    """A cell: both adapters' blocks over what is written behind some prompts. Raises GlimpseError if texts differ."""
    params = SamplingParams(max_tokens=tokens, **LAWS[mode])
    ids = [own for _, own in prompts]
    both = {arm: record(llm, ids, params, str(adapter)) for arm, adapter in adapters.items()}
    found = []
    for place, (name, own) in enumerate(prompts):
        texts = {arm: texts[place] for arm, texts in both.items()}
        if texts[WITH].tokens != texts[WITHOUT].tokens:
            raise GlimpseError(f"{name}, {mode}: the text is another with another adapter")
        found.append(
            {"name": name, "prompt": len(own), "digest": digest(own), "tokens": len(texts[WITH].tokens) - 1,
             "runs": {arm: counted(text) for arm, text in texts.items()},
             "right": {arm: "".join(str(start.right) for start in text.starts) for arm, text in texts.items()}}
        )  # fmt: skip
    return {"texts": found}


def lengths(modes: Mapping[str, Texts]) -> Table:
    """Tokens a round of both, and what the calibrator gains."""
    columns = next(iter(modes.values())).columns
    rows = []
    for mode, texts in modes.items():
        for arm in (WITH, WITHOUT):
            each = [tokens_a_round(texts.runs(arm, chosen)) for chosen in columns.values()]
            rows.append([f"{mode}, {arm}", *(f"{value:.2f}" for value in each)])
        each_gain = [texts.over(WITH, WITHOUT, chosen) for chosen in columns.values()]
        rows.append([f"{mode}, gain", *(f"{mid:+.2f} ({low:+.2f} to {high:+.2f})" for mid, low, high in each_gain)])
    return Table("Tokens a round, the target's own included (95% interval over texts)", ("blocks", *columns), rows)


def one_arm(texts: Texts, arm: str) -> Texts:
    """The texts with what one adapter had right."""
    return Texts(
        {name: [{**text, "right": text["right"][arm]} for text in every] for name, every in texts.sets.items()}
    )


def body(bench: Bench, files: Files, without: Path) -> Findings:
    check_pair(files.adapter, without)
    settings, config = bench.settings, config_of(files.adapter)
    adapters = {WITH: files.adapter, WITHOUT: without}

    def measure(some: list[tuple[str, list[int]]], mode: str, first: int) -> dict:
        return measured(bench.llm, some, mode, settings["tokens"], adapters)

    texts = texts_of(bench, files, measure)
    questions = [name for name in SETS if name in settings["sets"]]
    found = [
        Target(f"{mode}: the calibrator's gain on questions, tokens a round, lower end of the 95% interval", ">= 0",
               own.over(WITH, WITHOUT, questions)[1])
        for mode, own in texts.items()
    ]  # fmt: skip
    places = {f"{mode}, {arm}": one_arm(own, arm) for mode, own in texts.items() for arm in adapters}
    return Findings(found, [lengths(texts), by_place(places, config.size)])


def suite(files: Files, without: Path) -> Suite:
    return Suite(
        name="block_calibrator",
        summary=__doc__.splitlines()[0],
        settings={"adapter": adapter_label(files.adapter), "without": adapter_label(without), **SETTINGS},
        quick=QUICK,
        body=partial(body, files=files, without=without),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--without", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, default=DEMO)
    known, rest = parser.parse_known_args()
    sys.exit(main(suite(Files(known.questions, known.texts, known.adapter), known.without), ROOT, rest))

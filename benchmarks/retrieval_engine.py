"""Speed of every drafter through the engine at batch 1, beside plain decoding and transformers' own prompt lookup.

    python -m benchmarks.retrieval_engine [--arms none,racer,auto] [--questions FOLDER]

Everyday prompts, and questions of Spec-Bench, HumanEval, GSM8K and MGSM. In every turn each arm decodes the prompt
once, in an order that is turned round from turn to turn; ratios are taken within a turn, and the value of a prompt is
their median. The first turns do not count. A turn is a cell: an interrupted run goes on where it was. Drafters come
from the registry, so one that a package adds is an arm too. transformers (plain, with prompt lookup) decodes greedily.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.retrieval_answers import LONGEST, ROOT, SETS, questions
from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import digest, everyday_prompts
from glimpse.bench.twin import Twin
from glimpse.drafting import DRAFTERS
from glimpse.errors import GlimpseError

MODES = {
    "greedy": SamplingParams(temperature=0.0, ignore_eos=True),
    "T=0.7": SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=3, ignore_eos=True),
}
PACERS = {"none": "fixed", "lookup": "entropy", "sparse": "entropy", "refresh": "entropy"}
"""Of drafters that do not name one; all others are paced by `marginal`."""
TWINS = {"transformers": 0, "transformers lookup": 10}
"""Tokens of its prompt lookup."""
Run = dict


def pacer_of(drafter: str) -> str:
    own = DRAFTERS.get(drafter).paced_by
    return own or PACERS.get(drafter, "marginal")


def ours(llm: LLM, ids: list[int], mode: str, tokens: int) -> Run:
    out = llm.generate([ids], replace(MODES[mode], max_tokens=tokens))[0]
    spoken = out.speculation
    steps = spoken.rounds + spoken.plain_steps + spoken.draft_steps
    return {
        "tokens_per_s": out.timing.tokens_per_s,
        "tokens_a_step": (len(out.token_ids) - 1) / steps,  # the first token is the prefill's
        "nodes_a_step": spoken.drafted / steps,
        "text": digest(out.token_ids),
    }


def theirs(twin: Twin, lookup: int, ids: list[int], mode: str, tokens: int) -> Run:
    run = twin.generate(ids, tokens, lookup=lookup)
    return {"tokens_per_s": run.tokens_per_s, "text": digest(run.token_ids)}


class Arms:
    """The arms asked for, made when they are first used."""

    def __init__(self, bench: Bench, names: Sequence[str]) -> None:
        self.names, self._bench = names, bench
        self._made: dict[str, Callable[..., Run]] = {}
        self._twin: Twin | None = None

    def of(self, mode: str) -> list[str]:
        return [name for name in self.names if name not in TWINS or mode == "greedy"]

    def run(self, name: str, *asked) -> Run:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name](*asked)

    def _make(self, name: str) -> Callable[..., Run]:
        if name in TWINS:
            self._twin = self._twin or Twin(self._bench.options.model)
            return partial(theirs, self._twin, TWINS[name])
        return partial(ours, self._bench.llm.variant(drafter=name, pacer=pacer_of(name)))


def prompts(bench: Bench, folder: Path) -> Iterator[tuple[str, str, list[int]]]:
    """(kind, name, token ids)."""
    tokenizer, settings = bench.llm.tokenizer, bench.settings
    for kind, ids in everyday_prompts(tokenizer, settings["document"]).items():
        if kind in settings["kinds"]:
            yield kind, kind, ids
    for kind in SETS if settings["questions"] else ():
        for name, text in questions(folder, kind, settings["questions"]):
            ids = tokenizer.chat([{"role": "user", "content": text}])
            if len(ids) <= LONGEST:
                yield kind, name, ids


def turn(arms: Arms, names: list[str], facts: dict, ids: list[int], mode: str, tokens: int) -> dict:
    """A cell: every arm once, in this order."""
    return {**facts, "mode": mode, "runs": {name: arms.run(name, ids, mode, tokens) for name in names}}


def measure(bench: Bench, arms: Arms, folder: Path) -> list[dict]:
    """All turns that count."""
    counted, settings = [], bench.settings
    for kind, name, ids in prompts(bench, folder):
        turns = range(-settings["warm_up"], settings["rounds"])
        names = {(mode, number): f"{name} {mode} {number}" for mode in MODES for number in turns}
        if not bench.known(names.values()):
            with bench.llm.pinned(ids) as pinned:
                for (mode, number), cell in names.items():
                    order = arms.of(mode)[:: 1 if number % 2 == 0 else -1]
                    facts = {"kind": kind, "prompt": name, "counts": number >= 0}
                    bench.cell(cell, partial(turn, arms, order, facts, pinned, mode, settings["tokens"]))
        counted += [bench.recorded(cell) for cell in names.values()]
    return [cell for cell in counted if cell["counts"]]


def ratios(cells: Sequence[dict], first: str, second: str) -> list[float]:
    """One number a prompt: the median over its turns of the speed of one arm over that of another."""
    by_prompt: dict[str, list[float]] = {}
    for cell in cells:
        speeds = [cell["runs"][arm]["tokens_per_s"] for arm in (first, second)]
        by_prompt.setdefault(cell["prompt"], []).append(speeds[0] / speeds[1])
    return [median(each) for each in by_prompt.values()]


def same_text(cells: Sequence[dict], arm: str) -> str:
    right = sum(cell["runs"][arm]["text"] == cell["runs"]["none"]["text"] for cell in cells)
    return f"{right} of {len(cells)}"


def rows(cells: Sequence[dict], kind: str, mode: str, arms: Sequence[str]) -> list[list[str]]:
    """One a drafter: speeds over plain decoding, the geometric mean over the kind's prompts."""
    mine = [cell for cell in cells if (cell["kind"], cell["mode"]) == (kind, mode)]
    made = []
    for arm in arms if mine else ():
        speeds = ratios(mine, arm, "none")
        steps = [median(cell["runs"][arm].get(what, float("nan")) for cell in mine) for what in COUNTS]
        counts = [f"{count:.2f}" if count == count else "" for count in steps]
        low = f"{min(speeds):.2f} to {max(speeds):.2f}" if len(speeds) > 1 else ""
        made.append([f"{kind}, {mode}", arm, f"{geometric_mean(speeds):.2f}", low, *counts, same_text(mine, arm)])
    return made


COUNTS = ("tokens_a_step", "nodes_a_step")
COLUMNS = ("prompts", "drafter", "times plain", "lowest, highest", "tokens a step", "nodes a step", "plain's text")


def targets(cells: Sequence[dict], kinds: Sequence[str], singles: Sequence[str]) -> list[Target]:
    """What `auto` must show: never slower than plain by over 2%, within 5% of the best drafter of each cell."""
    found = []
    for kind in kinds:
        for mode in MODES:
            mine = [cell for cell in cells if (cell["kind"], cell["mode"]) == (kind, mode)]
            best = max(geometric_mean(ratios(mine, arm, "none")) for arm in singles)
            own = geometric_mean(ratios(mine, "auto", "none"))
            found.append(Target(f"{kind}, {mode}: auto over plain decoding", ">= 0.98", own))
            found.append(Target(f"{kind}, {mode}: auto over the best single drafter", ">= 0.95", own / best))
    return found


def body(bench: Bench, folder: Path) -> Findings:
    asked = bench.settings["arms"]
    arms = Arms(bench, asked)
    cells = measure(bench, arms, folder)
    kinds = list(dict.fromkeys(cell["kind"] for cell in cells))
    shown = [row for kind in kinds for mode in MODES for row in rows(cells, kind, mode, arms.of(mode))]
    singles = [arm for arm in asked if arm not in TWINS and arm != "auto"]
    judged = targets(cells, kinds, singles) if "auto" in asked else []
    return Findings(judged, [Table("Drafters through the engine, batch 1", COLUMNS, shown)])


def suite(arms: Sequence[str], folder: Path) -> Suite:
    return Suite(
        name="retrieval_engine",
        summary=__doc__.splitlines()[0],
        settings={
            "arms": list(arms),
            "kinds": ["document", "chat", "code", "edit", "free text"],
            "questions": 6,
            "document": 1500,
            "tokens": 64,
            "rounds": 3,
            "warm_up": 1,
        },
        quick={"kinds": ["edit"], "questions": 1, "document": 60, "tokens": 6, "rounds": 1, "warm_up": 0},
        body=partial(body, folder=folder),
    )


def arms_of(text: str | None) -> list[str]:
    """Plain decoding, and what was asked for: by default every drafter there is, and transformers.

    Not those that were trained for one model: they need a file.
    """
    untrained = [name for name in DRAFTERS.names() if not DRAFTERS.get(name).takes_adapter]
    every = [*untrained, *TWINS]
    asked = every if text is None else text.split(",")
    unknown = [name for name in asked if name not in every]
    if unknown:
        raise GlimpseError(f"--arms: unknown {unknown[0]!r}; known: {', '.join(every)}")
    return ["none", *(name for name in asked if name != "none")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--arms")
    parser.add_argument("--questions", type=Path, default=ROOT.parent / "shared" / "data" / "questions")
    known, rest = parser.parse_known_args()
    try:
        chosen = suite(arms_of(known.arms), known.questions)
    except GlimpseError as error:
        parser.error(str(error))
    sys.exit(main(chosen, ROOT, rest))

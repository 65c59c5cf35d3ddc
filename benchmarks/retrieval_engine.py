"""Speed of every drafter through the engine at batch 1, beside plain decoding and transformers' own prompt lookup.

    python -m benchmarks.retrieval_engine [--arms none,racer,auto] [--questions FOLDER] [--shard 1/3]
    python -m benchmarks.retrieval_engine --join FILE FILE FILE

Everyday prompts, and questions of Spec-Bench, HumanEval, GSM8K and MGSM. In every turn each arm decodes the prompt
once, in an order that is turned round from turn to turn; ratios are taken within a turn, and the value of a prompt is
their median. Before the first turn every arm decodes once, which does not count. A turn is a cell: an interrupted run
goes on where it was. Shard 1/3 has every third prompt and a result file of its own; `--join` puts the files of all
shards together. Drafters come from the registry, so one that a package adds is an arm too. transformers (plain, with
prompt lookup) decodes greedily.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.retrieval_answers import LONGEST, ROOT, SETS, questions
from benchmarks.retrieval_figures import GREEDY, SAMPLED, TWIN, TWIN_LOOKUP, tables, targets
from glimpse import LLM, SamplingParams
from glimpse.bench.report import reasons
from glimpse.bench.results import Result, read_result, write_result
from glimpse.bench.runner import Bench, Findings, Suite, add_options, main
from glimpse.bench.texts import digest, everyday_prompts
from glimpse.bench.twin import Twin
from glimpse.drafting import DRAFTERS
from glimpse.drafting.drafter import Drafter
from glimpse.errors import GlimpseError

MODES = {
    GREEDY: SamplingParams(temperature=0.0, ignore_eos=True),
    SAMPLED: SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=3, ignore_eos=True),
}
NAME = "retrieval_engine"
PACERS = {"none": "fixed", "lookup": "entropy", "sparse": "entropy", "refresh": "entropy"}
"""Of drafters that do not name one; all others are paced by `marginal`."""
TWINS = {TWIN: 0, TWIN_LOOKUP: 10}
"""Tokens of its prompt lookup."""
Run = dict


def pacer_of(drafter: str) -> str:
    offered = DRAFTERS.get(drafter)
    own = None if offered.usual_pacer == Drafter.usual_pacer else offered.usual_pacer
    return offered.paced_by or own or PACERS.get(drafter, "marginal")


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
        return [name for name in self.names if name not in TWINS or mode == GREEDY]

    def run(self, name: str, *asked) -> Run:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name](*asked)

    def _make(self, name: str) -> Callable[..., Run]:
        if name in TWINS:
            self._twin = self._twin or Twin(self._bench.options.model)
            return partial(theirs, self._twin, TWINS[name])
        return partial(ours, self._bench.llm.variant(drafter=name, pacer=pacer_of(name)))


def prompts(bench: Bench, folder: Path) -> list[tuple[str, str, list[int]]]:
    """(kind, name, token ids) of this shard."""
    place, shards = bench.settings["shard"]
    return list(_prompts(bench, folder))[place - 1 :: shards]


def _prompts(bench: Bench, folder: Path) -> Iterator[tuple[str, str, list[int]]]:
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
    """All turns."""
    cells, settings, warm = [], bench.settings, False
    for kind, name, ids in prompts(bench, folder):
        names = {(mode, number): f"{name} {mode} {number}" for mode in MODES for number in range(settings["turns"])}
        if not bench.known(names.values()):
            with bench.llm.pinned(ids) as pinned:
                for mode in () if warm else MODES:
                    turn(arms, arms.of(mode), {}, pinned, mode, settings["tokens"])
                warm = True
                for (mode, number), cell in names.items():
                    order = arms.of(mode)[:: 1 if number % 2 == 0 else -1]
                    facts = {"kind": kind, "prompt": name}
                    bench.cell(cell, partial(turn, arms, order, facts, pinned, mode, settings["tokens"]))
        cells += [bench.recorded(cell) for cell in names.values()]
    return cells


def body(bench: Bench, folder: Path) -> Findings:
    cells = measure(bench, Arms(bench, bench.settings["arms"]), folder)
    return Findings(targets(cells), tables(cells))


def suite(arms: Sequence[str], folder: Path, shard: tuple[int, int] = (1, 1)) -> Suite:
    """`shard`: which of how many."""
    return Suite(
        name=NAME if shard == (1, 1) else f"{NAME}-{shard[0]}of{shard[1]}",
        summary=__doc__.splitlines()[0],
        settings={
            "arms": list(arms),
            "kinds": ["document", "chat", "code", "edit", "free text"],
            "questions": 3,
            "document": 1500,
            "tokens": 64,
            "turns": 3,
            "shard": list(shard),
        },
        quick={"kinds": ["edit"], "questions": 1, "document": 60, "tokens": 6, "turns": 1},
        body=partial(body, folder=folder),
    )


def arms_of(text: str | None) -> list[str]:
    """Plain decoding, and what was asked for: by default every drafter there is, and transformers.

    Not those that were trained for one model: they need a file.
    """
    untrained = [name for name in DRAFTERS.names() if not DRAFTERS.get(name).needs_adapter]
    every = [*untrained, *TWINS]
    asked = every if text is None else text.split(",")
    unknown = [name for name in asked if name not in every]
    if unknown:
        raise GlimpseError(f"--arms: unknown {unknown[0]!r}; known: {', '.join(every)}")
    return ["none", *(name for name in asked if name != "none")]


def shard_of(text: str) -> tuple[int, int]:
    """ "2/3" is the second of three."""
    place, _, shards = text.partition("/")
    if not (place.isdecimal() and shards.isdecimal() and 1 <= int(place) <= int(shards)):
        raise GlimpseError(f"--shard {text!r}: give which of how many, such as 1/3")
    return int(place), int(shards)


def joined(results: Sequence[Result]) -> Result:
    """One result of all shards. Raises GlimpseError where one is missing, twice there, or measured otherwise."""
    first = results[0]
    found = sorted(tuple(result.settings.get("shard", ())) for result in results)
    shards = len(results)
    if found != [(place, shards) for place in range(1, shards + 1)]:
        raise GlimpseError(f"--join: shards {found}, where every one of {shards} should be there once")
    for result in results[1:]:
        for name in ("device", "versions", "commit", "dirty", "quick"):
            if getattr(result, name) != getattr(first, name):
                raise GlimpseError(f"--join: {name} {getattr(result, name)} beside {getattr(first, name)}")
        if result.settings | {"shard": 0} != first.settings | {"shard": 0}:
            raise GlimpseError("--join: the shards were measured with other settings")
    cells = [cell for result in results for cell in result.runs]
    why = reasons(ROOT / "benchmarks" / "notes.toml").get(NAME, {})
    judged = [target.noted(why.get(target.what)) for target in targets(cells)]
    settings = first.settings | {"shard": [1, 1]}
    return replace(first, suite=NAME, settings=settings, runs=cells, targets=judged, tables=tables(cells))


def start(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--arms")
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--questions", type=Path, default=ROOT.parent / "shared" / "data" / "questions")
    known, rest = parser.parse_known_args(arguments)
    try:
        if known.join:
            add_options(parser, ROOT)
            out = parser.parse_args(arguments).out or ROOT / "benchmarks" / "results"
            print(write_result(joined([read_result(path) for path in known.join]), out))
            return 0
        chosen = suite(arms_of(known.arms), known.questions, shard_of(known.shard))
    except GlimpseError as error:
        parser.error(str(error))
    return main(chosen, ROOT, rest)


if __name__ == "__main__":
    sys.exit(start())

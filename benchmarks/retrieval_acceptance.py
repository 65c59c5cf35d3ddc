"""Tokens a round, without an engine: each source of retrieval drafts follows answers that are known beforehand.

    python -m benchmarks.retrieval_acceptance FOLDER [--budgets 16,32,64] [--mode greedy]

FOLDER is written by `retrieval_answers`. Nothing is kept from one answer to the next. The successor table learns the
logits of committed positions only (those of rejected nodes would need the model), so its figures are lower bounds.
Right for greedy answers and for `coupled` sampling: there a draft is accepted exactly where it equals the answer.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.retrieval_host import rows_of
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.lookup import LookupDrafter
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.merging import merge
from glimpse.drafting.racer.successors import SuccessorTable
from glimpse.drafting.suffix.source import SuffixSource
from glimpse.drafting.tree import Tree

DEPTH = 32


@dataclass(frozen=True)
class Answer:
    name: str
    prompt: int
    ids: list[int]
    successors: np.ndarray
    chances: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Answer:
        with np.load(path) as file:
            ids = [*file["prompt"].tolist(), *file["output"].tolist()]
            return cls(str(file["name"]), len(file["prompt"]), ids, file["successors"], file["chances"])


class Union:
    """Some of the sources of `RacerDrafter`, for one answer."""

    def __init__(self, answer: Answer, budget: int, parts: str, shortest: int = 1) -> None:
        """`parts`: s suffix matches, a the automaton (its contexts of at least `shortest` tokens), t the table."""
        self.answer, self.budget, self.read = answer, budget, 0
        self.suffix = SuffixSource() if "s" in parts else None
        self.automaton = Automaton(shortest=shortest) if "a" in parts else None
        self.table = SuccessorTable() if "t" in parts else None
        self.advance(answer.prompt)

    def advance(self, end: int) -> None:
        """Reads the answer up to `end`; the last token was not fed to the model yet, so its logits are unknown."""
        answer, begin = self.answer, self.read
        new = answer.ids[begin:end]
        if self.suffix is not None:
            self.suffix.learn(new)
            self.suffix.read(new)
        if self.automaton is not None:
            self.automaton.read(new)
        if self.table is not None:
            known = slice(max(0, begin - 1), end - 1)
            self.table.write(np.array(answer.ids[known]), answer.successors[known], answer.chances[known])
        self.read = end

    def draft(self) -> tuple[int, int]:
        """How many tokens are drafted, and how many of them on the answer's path."""
        retrieved: list[Tree] = []
        for source in (self.suffix, self.automaton):
            if source is not None:
                retrieved.append(source.propose(self.budget, DEPTH))
        tree = merge(retrieved, self.table, self.answer.ids[self.read - 1], self.budget, DEPTH)
        return len(tree), len(tree.path(self.answer.ids[self.read : self.read + DEPTH]))


class Lookup:
    """The prompt-lookup drafter, a chain of at most 16 tokens."""

    def __init__(self, answer: Answer, budget: int) -> None:
        self.answer, self.read, self.budget = answer, answer.prompt, min(budget, 16)
        self.drafter, self.view = LookupDrafter(), rows_of([np.array(answer.ids[: answer.prompt])], 0)
        self.drafter.admit(self.view)
        self.drafted, self.accepted = 0, 0

    def advance(self, end: int) -> None:
        tokens = self.answer.ids[self.read : end]
        self.drafter.absorb(self.view, [Outcome(0, self.drafted, self.accepted, tokens)])
        self.read = end

    def draft(self) -> tuple[int, int]:
        tokens = self.drafter.plan(self.view, [self.budget]).tokens.tolist()
        following = self.answer.ids[self.read : self.read + len(tokens)]
        wrong = (place for place, pair in enumerate(zip(tokens, following, strict=False)) if pair[0] != pair[1])
        self.drafted, self.accepted = len(tokens), next(wrong, len(following))
        return self.drafted, self.accepted


ARMS = {
    "lookup": Lookup,
    "suffix": partial(Union, parts="s"),
    "automaton": partial(Union, parts="a"),
    "automaton, contexts >= 2": partial(Union, parts="a", shortest=2),
    "table": partial(Union, parts="t"),
    "racer": partial(Union, parts="at"),
    "racer, contexts >= 2": partial(Union, parts="at", shortest=2),
    "racer + suffix": partial(Union, parts="sat"),
}


def follow(arm: str, answer: Answer, budget: int) -> tuple[int, int, int]:
    """Rounds, tokens (the target's own included) and drafted nodes of one answer."""
    source = ARMS[arm](answer, budget)
    rounds = drafted = 0
    while source.read < len(answer.ids):
        nodes, accepted = source.draft()
        source.advance(min(source.read + accepted + 1, len(answer.ids)))
        rounds, drafted = rounds + 1, drafted + nodes
    return rounds, len(answer.ids) - answer.prompt, drafted


def tokens_a_round(runs: list[tuple[int, int, int]]) -> float:
    return sum(run[1] for run in runs) / sum(run[0] for run in runs)


def gain(pairs: list[tuple[tuple[int, int, int], tuple[int, int, int]]]) -> float:
    return tokens_a_round([pair[0] for pair in pairs]) - tokens_a_round([pair[1] for pair in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.retrieval_acceptance", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", default="16,32,64")
    parser.add_argument("--mode", default="greedy", choices=("greedy", "sampled"))
    options = parser.parse_args()
    answers = [Answer.read(path) for path in sorted(options.folder.glob(f"*-{options.mode}.npz"))]
    if not answers:
        parser.error(f"{options.folder} holds no *-{options.mode}.npz: run benchmarks.retrieval_answers first")
    names = list(dict.fromkeys(answer.name for answer in answers))
    share = sum(distinct_share(answer.ids[answer.prompt :]) for answer in answers) / len(answers)
    print(
        f"{options.mode}, {share:.0%} of the 4-grams distinct: tokens a round",
        *(f"{name} ({[a.name for a in answers].count(name)})" for name in names),
    )
    for budget in map(int, options.budgets.split(",")):
        found = {}
        for arm in ARMS:
            found[arm] = runs = [follow(arm, answer, budget) for answer in answers]
            each = [tokens_a_round([r for r, a in zip(runs, answers, strict=True) if a.name == name]) for name in names]
            nodes = sum(run[2] for run in runs) / sum(run[0] for run in runs)
            columns = " ".join(f"{value:9.2f}" for value in each)
            print(f"{budget:3} nodes {arm:26}{columns}   all {tokens_a_round(runs):.3f}, {nodes:.0f} nodes", flush=True)
        for first, second in (("racer", "table"), ("racer", "lookup"), ("racer", "racer, contexts >= 2")):
            pairs = list(zip(found[first], found[second], strict=True))
            low, high = bootstrap(pairs, gain)
            print(f"{budget:3} nodes {first} over {second}: {gain(pairs):+.3f} ({low:+.3f} to {high:+.3f})", flush=True)


if __name__ == "__main__":
    main()

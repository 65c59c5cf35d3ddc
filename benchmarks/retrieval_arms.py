"""Sources of retrieval drafts that follow answers known beforehand: who would have drafted what, without an engine.

Nothing is kept from one answer to the next. The successor table learns the logits of committed positions only (those of
rejected nodes would need the model), so what it adds is a lower bound. Right for greedy answers and for `coupled`
sampling: there a draft is accepted exactly where it equals the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.retrieval_host import rows_of
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
    """What `retrieval_answers` wrote."""

    set: str
    name: str
    prompt: int
    ids: list[int]
    successors: np.ndarray
    chances: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Answer:
        with np.load(path) as file:
            ids = [*file["prompt"].tolist(), *file["output"].tolist()]
            return cls(str(file["name"]), path.stem, len(file["prompt"]), ids, file["successors"], file["chances"])


class Arm(Protocol):
    """Drafts for one answer; `read` is how many of its tokens are known to it."""

    read: int

    def advance(self, end: int) -> None:
        """Reads the answer up to `end`."""

    def draft(self) -> tuple[int, int]:
        """How many tokens are drafted, and how many of them on the answer's path."""


class Union:
    """Some of the sources of `RacerDrafter`, for one answer."""

    def __init__(self, answer: Answer, budget: int, parts: str, shortest: int = 1, retrieved: float = 1) -> None:
        """`parts`: s suffix matches, a the automaton (its contexts of at least `shortest` tokens), t the table.

        Retrieval may fill the share `retrieved` of the budget.
        """
        self.answer, self.budget, self.most, self.read = answer, budget, int(retrieved * budget), 0
        self.suffix = SuffixSource() if "s" in parts else None
        self.automaton = Automaton(shortest=shortest) if "a" in parts else None
        self.table = SuccessorTable() if "t" in parts else None
        self.advance(answer.prompt)

    def advance(self, end: int) -> None:
        """The last token was not fed to the model yet, so its logits are unknown."""
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
        sources = [source for source in (self.suffix, self.automaton) if source is not None]
        retrieved: list[Tree] = [source.propose(self.most, DEPTH) for source in sources]
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


ARMS: Mapping[str, Callable[[Answer, int], Arm]] = {
    "lookup": Lookup,
    "suffix": partial(Union, parts="s"),
    "automaton": partial(Union, parts="a"),
    "table": partial(Union, parts="t"),
    "racer": partial(Union, parts="at"),
    "racer+suffix": partial(Union, parts="sat"),
    "racer, half-half": partial(Union, parts="at", retrieved=0.5),
    "racer, contexts >= 2": partial(Union, parts="at", shortest=2),
    "automaton, contexts >= 2": partial(Union, parts="a", shortest=2),
}
"""`table` is RACER without retrieval, `automaton` RACER without logits."""


def follow(arm: str, answer: Answer, budget: int) -> list[int]:
    """Rounds, tokens (the target's own included) and drafted nodes of one answer."""
    source = ARMS[arm](answer, budget)
    rounds = drafted = 0
    while source.read < len(answer.ids):
        nodes, accepted = source.draft()
        source.advance(min(source.read + accepted + 1, len(answer.ids)))
        rounds, drafted = rounds + 1, drafted + nodes
    return [rounds, len(answer.ids) - answer.prompt, drafted]

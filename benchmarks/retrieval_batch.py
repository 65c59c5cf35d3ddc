"""A batch of rows that follow answers known beforehand under a drafter and a pacer: their own code decides, and a
measured step-time surface says what it takes, so no clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import torch

from benchmarks.retrieval_arms import DEPTH, Answer
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence as Pages
from glimpse.drafting import DRAFTERS
from glimpse.drafting.drafter import DraftContext, Drafter, Outcome, Successors
from glimpse.pacing import PACERS
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.pacer import Action, PaceContext, Pacer


@dataclass(frozen=True, slots=True)
class Policy:
    """Who drafts and who paces; `most` nodes a row."""

    drafter: str
    pacer: str
    most: int


@dataclass(slots=True)
class Spent:
    """What came of a run."""

    tokens: int = 0
    nodes: int = 0
    rounds: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, float]:
        """What stands in a result file."""
        return {"tokens_per_s": self.tokens / self.seconds, "tokens_a_round": self.tokens / self.rounds,
                "nodes_a_round": self.nodes / self.rounds}  # fmt: skip


class Batch:
    """As many rows as there are places; a row whose answer has ended takes the next one, round and round."""

    def __init__(self, answers: Sequence[Answer], rows: int, policy: Policy, coefficients: Sequence[float]) -> None:
        """`coefficients`: [9] seconds per unit of `StepLoad.features`, of a step."""
        self._answers, self._coefficients = answers, np.array(coefficients)
        longest = max(len(answer.ids) for answer in answers)
        self._rows = Rows(rows, longest + policy.most + 2, max(1, policy.most))
        self._pool = PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)
        offered = DRAFTERS.get(policy.drafter)
        costs = StepCosts(1, 1, start=coefficients, lean=1e6)
        context = PaceContext(costs, policy.most or None, True, lambda length: 0, can_draft=offered.drafts)
        self._pacer: Pacer = PACERS.get(policy.pacer).build(context)
        self._drafter: Drafter = offered.build(DraftContext(self._pool, RecallBudget(), nodes=max(1, policy.most)))
        self._costs = costs
        self._following: list[Answer] = []
        self._next = count()

    def run(self, tokens: int) -> Spent:
        """Until so many tokens are written."""
        spent = Spent()
        for slot in range(self._rows.capacity):
            self._take(slot)
        while spent.tokens < tokens:
            self._step(spent)
        return spent

    def _take(self, slot: int) -> None:
        answer = self._answers[next(self._next) % len(self._answers)]
        self._following[slot:] = [answer, *self._following[slot + 1 :]]
        self._rows.open(slot, answer.ids[: answer.prompt + 1], Pages(self._pool), len(answer.ids))
        self._rows.prompt_len[slot] = answer.prompt
        view = RowView(self._rows, (slot,))
        self._drafter.admit(view)
        self._pacer.admit(view)

    def _step(self, spent: Spent) -> None:
        rows = self._rows
        view = RowView(rows, tuple(range(rows.capacity)))
        lengths = view.column(rows.committed_len)
        room = [min(DEPTH, len(own.ids) - have - 1) for own, have in zip(self._following, lengths, strict=True)]
        decided = self._pacer.decide(view, room)
        wants = view.pick([action is Action.DRAFT for action in decided.actions])
        if len(wants):
            self._fill(wants, [left for left, act in zip(decided.room, decided.actions, strict=True)
                               if act is Action.DRAFT])  # fmt: skip
        drafted = view.column(rows.draft_len)
        load = StepLoad(
            full_tokens=len(view) + sum(drafted), full_kv=sum(lengths) + sum(drafted),
            pairs=sum((1 + nodes) * have for nodes, have in zip(drafted, lengths, strict=True)),
        )  # fmt: skip
        seconds = float(load.features() @ self._coefficients)
        self._costs.observe(load, seconds)
        self._commit(view, lengths, drafted)
        spent.seconds += seconds
        spent.rounds += len(view)
        spent.nodes += sum(drafted)
        spent.tokens += sum(view.column(rows.committed_len)) - sum(lengths)
        self._renew()

    def _fill(self, view: RowView, room: list[int]) -> None:
        draft = self._drafter.plan(view, room)
        for slot, (start, end) in zip(view.slots, pairwise(draft.offsets), strict=True):
            if end > start:
                facts = (draft.tokens, draft.parents, draft.confidence, draft.source)
                self._rows.put_draft(slot, *(fact[start:end] for fact in facts))
        for slot, keep in zip(view.slots, self._pacer.trim(view), strict=True):
            self._rows.draft_len[slot] = keep

    def _commit(self, view: RowView, lengths: list[int], drafted: list[int]) -> None:
        outcomes = []
        for slot, have, nodes in zip(view.slots, lengths, drafted, strict=True):
            answer = self._following[slot]
            accepted = self._accepted(slot, have, nodes)
            tokens, known = answer.ids[have : have + accepted + 1], slice(have - 1, have + accepted)
            successors = Successors(torch.tensor(answer.ids[known]), torch.from_numpy(answer.successors[known]),
                                    torch.from_numpy(answer.chances[known]))  # fmt: skip
            outcomes.append(Outcome(slot, nodes, accepted, tokens, successors=successors))
        self._pacer.observe(view, outcomes)
        for outcome in outcomes:
            end = lengths[outcome.slot] + len(outcome.tokens)
            self._rows.commit(outcome.slot, outcome.tokens, end - 1)
        self._drafter.absorb(view, outcomes)

    def _accepted(self, slot: int, have: int, nodes: int) -> int:
        """How many tokens of the answer the row's draft runs through."""
        parents = self._rows.draft_parents[slot, :nodes].tolist()
        tokens = self._rows.tokens[slot, have : have + nodes].tolist()
        children = {pair: node for node, pair in enumerate(zip(parents, tokens, strict=True))}
        at, depth, text = -1, 0, self._following[slot].ids[have:-1]
        while depth < len(text) and (at, text[depth]) in children:
            at, depth = children[at, text[depth]], depth + 1
        return depth

    def _renew(self) -> None:
        for slot, answer in enumerate(self._following):
            if int(self._rows.committed_len[slot]) >= len(answer.ids):
                view = RowView(self._rows, (slot,))
                self._pacer.retire(view)
                self._drafter.retire(view)
                self._rows.close(slot)
                self._take(slot)

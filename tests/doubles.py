"""Drafters and pacers that need no model: always right, often wrong, fixed, empty, random.

The drafters follow the protocol of `glimpse.drafting.drafter` and fill drafts at once; `with_parts` puts one in the
place of an engine's own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from glimpse.cache.rows import RowView
from glimpse.drafting.chains import chain
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.engine.engine import Engine
from glimpse.llm import LLM
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer

Texts = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Prompts and the outputs that plain decoding gave."""


def with_parts(llm: LLM, drafting: object = None, pacing: object = None, **options: object) -> LLM:
    """A variant of `llm` with a drafter or pacer object in the place of its own, `lookup` and `fixed` by default."""
    other = llm.variant(**{"drafter": "lookup", "pacer": "fixed"} | options)
    new = {name: part for name, part in (("drafter", drafting), ("pacer", pacing)) if part is not None}
    other._engine = Engine(replace(other._engine.parts, **new), other.options)
    return other


class HostDrafter(Drafter):
    """What the doubles share: whole drafts, chains, no law, nothing learned. They say what `proposal` is."""

    name = "double"
    drafts = True
    needs_forward = False
    gives_tree = False
    has_law = False
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    importance = 0

    def __init__(self) -> None:
        self.admitted: dict[int, int] = {}
        """Prompt length of the rows in use: must be empty when all requests have ended."""
        self.outcomes: list[Outcome] = []

    @classmethod
    def build(cls, context: DraftContext) -> HostDrafter:
        return cls()

    def admit(self, rows: RowView) -> None:
        for slot in rows.slots:
            assert slot not in self.admitted
            self.admitted[slot] = int(rows.rows.prompt_len[slot])

    def ready(self, rows: RowView) -> list[bool]:
        return [True] * len(rows)

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        tokens = [self.proposal(rows, slot, most)[:most] for slot, most in zip(rows.slots, room, strict=True)]
        return chain(tokens, [[0.9] * len(row) for row in tokens])

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        self.outcomes += outcomes

    def retire(self, rows: RowView) -> None:
        for slot in rows.slots:
            del self.admitted[slot]

    def proposal(self, rows: RowView, slot: int, room: int) -> list[int]:
        """The draft of one row, cut to `room` by the caller."""
        raise NotImplementedError


class Empty(HostDrafter):
    """Never a token."""

    def proposal(self, rows: RowView, slot: int, room: int) -> list[int]:
        return []


class Fixed(HostDrafter):
    """The same tokens at every step, or a list of drafts taken in turn."""

    def __init__(self, *drafts: Sequence[int]) -> None:
        super().__init__()
        self._drafts, self._turn = [list(draft) for draft in drafts], 0

    def proposal(self, rows: RowView, slot: int, room: int) -> list[int]:
        self._turn += 1
        return self._drafts[(self._turn - 1) % len(self._drafts)]


class Oracle(HostDrafter):
    """Replays outputs known beforehand, given as (prompt, output) with each prompt only once."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self._outputs = {tuple(prompt): list(output) for prompt, output in texts}
        assert len(self._outputs) == len(texts)
        self._follows: dict[int, list[int]] = {}

    def admit(self, rows: RowView) -> None:
        super().admit(rows)
        for slot in rows.slots:
            self._follows[slot] = self._outputs[tuple(rows.history(slot)[: self.admitted[slot]].tolist())]

    def proposal(self, rows: RowView, slot: int, room: int) -> list[int]:
        begin = len(rows.history(slot)) - self.admitted[slot]
        return self._follows[slot][begin : begin + room]


class Noisy(Oracle):
    """`Oracle` with each slot, the first included, wrong with probability `p`; the same position is always alike."""

    def __init__(self, texts: Texts, p: float, vocab: int = 300, seed: int = 0) -> None:
        super().__init__(texts)
        self._p, self._vocab, self._seed = p, vocab, seed

    def proposal(self, rows: RowView, slot: int, room: int) -> list[int]:
        begin, right = len(rows.history(slot)), super().proposal(rows, slot, room)
        return [self._maybe_wrong(begin + place, token) for place, token in enumerate(right)]

    def _maybe_wrong(self, position: int, token: int) -> int:
        draw = random.Random(f"{self._seed} {position} {token}")
        return (token + draw.randrange(1, self._vocab)) % self._vocab if draw.random() < self._p else token


class AlwaysWrong(Noisy):
    """No token is ever the one of the text."""

    def __init__(self, texts: Texts, vocab: int = 300) -> None:
        super().__init__(texts, 1.0, vocab)


class RandomPacer(Pacer):
    """Drafts, verifies and decodes plainly at random, and cuts host drafts anywhere (not for rules that need no
    anticipation: what it cuts does not depend on the tokens, so it is legal for all)."""

    name = "random"
    foretells = False

    def __init__(self, most: int, seed: int = 0) -> None:
        self.most, self._random = most, random.Random(seed)
        self.admitted: set[int] = set()

    @classmethod
    def build(cls, context: PaceContext) -> RandomPacer:
        return cls(context.draft_tokens or 8)

    def admit(self, rows: RowView) -> None:
        assert not self.admitted & set(rows.slots)
        self.admitted |= set(rows.slots)

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        drafted = rows.column(rows.rows.draft_len)
        more = [min(self.most - have, most) for have, most in zip(drafted, room, strict=True)]
        return Decisions([self._action(left) for left in more], more)

    def trim(self, rows: RowView) -> list[int]:
        return [self._random.randint(0, have) for have in rows.column(rows.rows.draft_len)]

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        assert {outcome.slot for outcome in outcomes} <= self.admitted

    def retire(self, rows: RowView) -> None:
        self.admitted -= set(rows.slots)

    def _action(self, left: int) -> Action:
        drafting = left > 0 and self._random.random() < 0.7
        return Action.DRAFT if drafting else self._random.choice((Action.VERIFY, Action.PLAIN))

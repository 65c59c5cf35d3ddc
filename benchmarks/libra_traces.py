"""Drafts from every position of a text: what a pacer of any kind would have had to decide on there.

Under `coupled` the text does not depend on what is drafted, and a recall set depends on the text alone,
so a draft begun at a position is the same whichever policy came by. All are recorded once, so policies can be replayed
without a model and without a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.bench.stats import distinct_share
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.engine.engine import Engine
from glimpse.pacing.pacer import Action, Decisions, Pacer

FARTHEST = 30.0
"""Margins beyond are as good as certain; where there is no runner-up it is infinite."""


@dataclass(frozen=True, slots=True)
class Start:
    """The draft begun at one position: `right` counts the tokens that the text goes on with."""

    confidence: tuple[float, ...]
    """The drafter's own probability of each token; 1 throughout where decoding is greedy."""
    entropy: tuple[float, ...]
    """Of the draft's law at temperature 1 before any truncation, in nats."""
    margin: tuple[float, ...]
    """How far the runner-up's score lay behind each token's (`sampling.leading`), at most FARTHEST."""
    right: int

    def as_json(self) -> str:
        """Thousandths, in one line: a list a line would make a file of a hundred thousand lines."""
        shown = (
            " ".join(str(round(1000 * each)) for each in part) for part in (self.confidence, self.entropy, self.margin)
        )
        return f"{self.right} | {' | '.join(shown)}"

    @classmethod
    def of_json(cls, text: str) -> Start:
        """The inverse of `as_json`."""
        right, *parts = text.split("|")
        return cls(*(tuple(int(each) / 1000 for each in part.split()) for part in parts), int(right))


@dataclass(slots=True)
class _Drafts:
    prompt: int
    margins: list[float] = field(default_factory=list)
    """Of the draft under way."""
    found: list[tuple[int, list[int], list[list[float]]]] = field(default_factory=list)
    """Committed length, tokens, facts."""


class Recorder(Pacer):
    """A pacer that notes drafts of `most` tokens at each of an output's first `positions`, and decodes plainly."""

    name = "recorder"
    foretells = False
    candidates = 2

    def __init__(self, most: int, positions: int) -> None:
        self.most, self._positions = most, positions
        self.drafts: dict[int, _Drafts] = {}
        """By slot, and kept when the row has ended."""

    def admit(self, rows: RowView) -> None:
        """Begins a record."""
        for slot in rows.slots:
            self.drafts[slot] = _Drafts(int(rows.rows.prompt_len[slot]))

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft up to `most`; then note the draft, drop it and verify nothing."""
        drafted = rows.column(rows.rows.draft_len)
        actions = [
            self._action(*row) for row in zip(rows.slots, rows.column(rows.rows.committed_len), drafted, strict=True)
        ]
        for slot, have in zip(rows.slots, drafted, strict=True):
            if have == self.most:
                self._note(rows, slot)
        return Decisions(actions, [self.most - have for have in drafted])

    def _action(self, slot: int, length: int, drafted: int) -> Action:
        if length - self.drafts[slot].prompt >= self._positions:
            return Action.PLAIN
        return Action.DRAFT if drafted < self.most else Action.VERIFY

    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """The two likeliest draws of the row's newest draft token."""
        self.drafts[slot].margins.append(min(FARTHEST, float(scores[0] - scores[1])))

    def trim(self, rows: RowView) -> list[int]:
        """Never asked for chains."""
        return rows.column(rows.rows.draft_len)

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Learns nothing."""

    def retire(self, rows: RowView) -> None:
        """Keeps the record."""

    def _note(self, rows: RowView, slot: int) -> None:
        own, begin = rows.rows, int(rows.rows.committed_len[slot])
        tokens, drafts = own.tokens[slot, begin : begin + self.most].tolist(), self.drafts[slot]
        facts = [own.draft_confidence[slot].tolist(), own.draft_entropy[slot].tolist(), drafts.margins]
        drafts.found.append((begin, tokens, facts))
        drafts.margins = []
        own.drop_draft(slot)


def recorded(llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, most: int) -> list[dict[str, Any]]:
    """One text a prompt, its drafts of `most` tokens from every position as `Start.as_json`, and its repetitiveness.

    `params.max_tokens` positions are recorded, and as much text more as judges the last of them.
    """
    arm = llm.variant(drafter="sparse", pacer="fixed", draft_tokens=most)
    recorder = Recorder(most, params.max_tokens)
    arm._engine = Engine(replace(parts_of(arm), pacer=recorder), arm.options)
    given = {name: value for name, value in params.as_dict().items() if value is not None}
    more = SamplingParams(**given | {"max_tokens": params.max_tokens + most})
    outs = arm.generate([list(ids) for ids in prompts], more)
    found = []
    for own, out in zip(recorder.drafts.values(), outs, strict=True):
        texts = out.token_ids
        starts = [
            Start(*map(tuple, facts), agreeing(tokens, texts[begin - own.prompt :])).as_json()
            for begin, tokens, facts in own.found
        ]
        found.append({"starts": starts, "distinct_4grams": distinct_share(texts)})
    return found


def starts_of(run: Mapping[str, Any]) -> list[Start]:
    """The recorded drafts of one text, position after position."""
    return [Start.of_json(text) for text in run["starts"]]


def agreeing(draft: Sequence[int], text: Sequence[int]) -> int:
    pairs = zip(draft, text, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), len(draft))

"""Recorded drafts replayed under pacers: their own code decides, a measured surface says what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.libra_surfaces import RowSurface
from benchmarks.libra_traces import Start
from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.pacer import Action, PaceContext, Pacer, chain_pacer_of

RIGHT, WRONG = 1, 0
"""The text is all RIGHT; so is a draft as far as it agrees."""
Place = tuple[int, Start]
"""Of which text a draft is, and what it was."""


@dataclass(slots=True)
class Tally:
    """What came of a replay."""

    tokens: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    """By text."""
    drafted: int = 0
    verified: int = 0
    rounds: int = 0
    distance: int = 0
    """Sum over rounds of how far the verified length was from the oracle's."""

    def add(self, text: int, tokens: int, seconds: float) -> None:
        """One round."""
        self.tokens[text] = self.tokens.get(text, 0) + tokens
        self.seconds[text] = self.seconds.get(text, 0.0) + seconds
        self.rounds += 1

    def speed(self, texts: Iterable[int] | None = None) -> float:
        """Tokens per second over some texts, by default all."""
        chosen = list(self.tokens) if texts is None else list(texts)
        return sum(self.tokens[text] for text in chosen) / sum(self.seconds[text] for text in chosen)

    def as_json(self) -> dict[str, object]:
        """The raw sums."""
        return {
            "tokens": list(self.tokens.values()),
            "seconds": [round(each, 6) for each in self.seconds.values()],
            "texts": list(self.tokens),
            "drafted": self.drafted / self.rounds,
            "verified": self.verified / self.rounds,
            "distance": self.distance / self.rounds,
        }


def sequences(texts: Sequence[Sequence[Start]], count: int, seed: int = 0) -> list[list[Place]]:
    """`count` requests, each of all texts in another order and from another place on: rounds fall differently."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        order, skipped = draw.permutation(len(texts)), int(draw.integers(8))
        found.append([(int(text), start) for text in order for start in texts[text]][skipped:])
    return found


class Replay:
    """One request under one pacer. Chains are drafted a step a token; a block is there at once, for its own price."""

    def __init__(
        self, make: Callable[[PaceContext], Pacer], surface: RowSurface, most: int, block: float | None
    ) -> None:
        """`block`: seconds of a block of `most` tokens; None for chains."""
        self._surface, self._most, self._block = surface, most, block
        rows = Rows(1, surface.length + most + 1, most)
        rows.committed_len[0], self._view = surface.length, RowView(rows, (0,))
        context = PaceContext(surface.costs, most, block is not None, lambda length: surface.read)
        self._pacer = make(context)
        self._chain = chain_pacer_of(self._pacer) if block is None else None
        self._pacer.admit(self._view)

    def run(self, places: Sequence[Place], tally: Tally, best: Sequence[int]) -> None:
        """To the end of the recorded places; `best` is the oracle's length at each."""
        at = 0
        while at < len(places):
            text, start = places[at]
            drafted, seconds = self._draft(start)
            kept = self._kept(drafted)
            accepted = min(start.right, kept)
            self._pacer.observe(self._view, [Outcome(0, kept, accepted, [RIGHT] * (accepted + 1))])
            self._view.rows.drop_draft(0)
            tally.add(text, accepted + 1, seconds + self._surface.full(kept))
            tally.drafted += drafted
            tally.verified += kept
            tally.distance += abs(kept - best[at])
            at += accepted + 1

    def _draft(self, start: Start) -> tuple[int, float]:
        return self._grow(start) if self._block is None else self._whole(start, self._block)

    def _grow(self, start: Start) -> tuple[int, float]:
        rows, seconds = self._view.rows, 0.0
        for place in range(self._most + 1):
            left = self._most - place
            if self._pacer.decide(self._view, [left]).actions[0] is not Action.DRAFT or not left:
                return place, seconds
            seconds += self._surface.draft(first=not place)
            if self._chain:
                self._chain.hear(0, torch.zeros(2), torch.tensor([start.margin[place], 0.0]))
            token = RIGHT if place < start.right else WRONG
            rows.add_draft(0, token, start.confidence[place], start.entropy[place])
        raise AssertionError("a draft without an end")

    def _whole(self, start: Start, price: float) -> tuple[int, float]:
        room = min(self._pacer.decide(self._view, [self._most]).room[0], len(start.confidence))
        if not room:
            return 0, 0.0
        tokens = torch.tensor([RIGHT] * start.right + [WRONG] * (self._most - start.right))[:room]
        said = torch.tensor(start.confidence[:room])
        self._view.rows.put_draft(0, tokens, torch.arange(-1, room - 1), said)
        return room, price

    def _kept(self, drafted: int) -> int:
        """How much is verified, as the engine asks."""
        asked = drafted and (self._block is not None or (self._chain is not None and self._chain.rolls_back))
        kept = self._pacer.trim(self._view)[0] if asked else drafted
        self._view.rows.draft_len[0] = kept
        return kept


def oracle(places: Sequence[Place], surface: RowSurface, block: float | None) -> tuple[float, list[int]]:
    """(tokens per second, best length at each place) for who knows how much of each draft is right.

    The rate is the greatest over all policies that end drafts at a right token: the fixed point of "each round the
    length whose tokens are worth most, less its seconds at the going rate" (Dinkelbach 1967).
    """
    rate, lengths = 1 / surface.full(0), [0] * len(places)
    for _ in range(12):
        lengths = [_best(start.right, surface, block, rate) for _, start in places]
        at, tokens, seconds = 0, 0, 0.0
        while at < len(places):
            length = lengths[at]
            tokens, seconds, at = tokens + length + 1, seconds + _price(length, surface, block), at + length + 1
        rate = tokens / seconds
    return rate, lengths


def _best(right: int, surface: RowSurface, block: float | None, rate: float) -> int:
    return max(range(right + 1), key=lambda length: length + 1 - rate * _price(length, surface, block))


def _price(length: int, surface: RowSurface, block: float | None) -> float:
    """Seconds of a round that drafts and verifies `length` tokens; a block may be left undrafted."""
    seconds = surface.full(length)
    if length and block is not None:
        seconds += block
    elif length:
        seconds += surface.draft(first=True) + (length - 1) * surface.draft(first=False)
    return seconds

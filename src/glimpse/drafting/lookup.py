"""Drafts copied from the request's own text: what followed the longest earlier match of its last tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from glimpse.cache.rows import RowView
from glimpse.drafting.chains import chain
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.drafting.suffix.store import SuffixStore
from glimpse.drafting.tree import Tree, chain_tree
from glimpse.errors import ArgumentError

PRIOR = (0.25, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Guess of P(next token matches) after a match of 1, 2, ... tokens; the last entry for all longer ones."""
PRIOR_WEIGHT = 6.0
"""How many observations the guess is worth."""
CANDIDATES = 32
"""At most so many earlier occurrences are compared, the most recent first, so a step's cost is bounded."""


class MatchRates:
    """How often the token after a match of m tokens was right, counted online over a prior.

    Token d of a draft that followed a match of m tokens continues a match of m + d tokens, and is counted there.
    """

    def __init__(self) -> None:
        self._hits = [p * PRIOR_WEIGHT for p in PRIOR]
        self._tries = [PRIOR_WEIGHT] * len(PRIOR)

    def rate(self, match: int) -> float:
        """P(next token is right) after a match of `match` tokens."""
        place = min(match, len(PRIOR)) - 1
        return self._hits[place] / self._tries[place]

    def observe(self, match: int, right: bool) -> None:
        """Counts one verified token."""
        place = min(match, len(PRIOR)) - 1
        self._tries[place] += 1
        self._hits[place] += right


@dataclass(slots=True)
class _History:
    tokens: list[int] = field(default_factory=list)
    ends: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Where each n-gram of the smallest size last ended (the index after it)."""
    earlier: list[int] = field(default_factory=list)
    """For each end, the previous end of the same n-gram, or -1."""
    rates: MatchRates = field(default_factory=MatchRates)
    match: int = 0
    """Length of the match that the current draft follows."""


class LookupDrafter(Drafter):
    """Longest suffix match within the request, between `min_match` and `max_match` tokens, the most recent on a tie."""

    name = "lookup"
    drafts = True
    needs_forward = False
    gives_tree = False
    has_law = False
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    importance = 0

    def __init__(self, min_match: int = 2, max_match: int = 16) -> None:
        if not 1 <= min_match <= max_match:
            raise ArgumentError(f"lookup matches {min_match} to {max_match} tokens; give 1 <= least <= most")
        self.min_match, self.max_match = min_match, max_match
        self._histories: dict[int, _History] = {}

    @classmethod
    def build(cls, context: DraftContext) -> LookupDrafter:
        """With the default range of matches."""
        return cls()

    @property
    def settings(self) -> dict[str, object]:
        """The range of matches, among the effective settings."""
        return {"min_match": self.min_match, "max_match": self.max_match}

    @staticmethod
    def source_of(store: SuffixStore | None) -> LookupSource:
        """One request's drafts, for the drafter `auto`; it reads no store."""
        return LookupSource()

    def admit(self, rows: RowView) -> None:
        """Indexes the prompts."""
        for slot in rows.slots:
            self._histories[slot] = _History()
            self._extend(self._histories[slot], rows.history(slot).tolist())

    def ready(self, rows: RowView) -> list[bool]:
        """Always."""
        return [True] * len(rows)

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """What followed the best match, for each row; empty where there is none."""
        tokens = [self._propose(self._histories[slot], most) for slot, most in zip(rows.slots, room, strict=True)]
        chances = [
            [self._histories[slot].rates.rate(self._histories[slot].match + i) for i in range(len(draft))]
            for slot, draft in zip(rows.slots, tokens, strict=True)
        ]
        return chain(tokens, chances)

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Counts hits and misses, indexes the committed tokens."""
        for outcome in outcomes:
            history = self._histories[outcome.slot]
            for index in range(min(outcome.accepted + 1, outcome.drafted)):
                history.rates.observe(history.match + index, index < outcome.accepted)
            self._extend(history, outcome.tokens)

    def retire(self, rows: RowView) -> None:
        """Drops the indexes."""
        for slot in rows.slots:
            self._histories.pop(slot, None)

    def _extend(self, history: _History, tokens: list[int]) -> None:
        text, ends, earlier, size = history.tokens, history.ends, history.earlier, self.min_match
        text += tokens
        earlier += [-1] * (min(len(text), size - 1) - len(earlier))  # no whole n-gram ends there
        first = len(earlier) + 1 - size
        for end, gram in enumerate(zip(*(text[first + place :] for place in range(size)), strict=False), first + size):
            earlier.append(ends.get(gram, -1))
            ends[gram] = end

    def _propose(self, history: _History, room: int) -> list[int]:
        history.match, best = 0, -1
        end = history.earlier[-1] if history.tokens else -1
        for _ in range(CANDIDATES):
            if end < 0 or room < 1:
                break
            match = self._match_length(history.tokens, end)
            if match > history.match:
                history.match, best = match, end
            if match == self.max_match:
                break
            end = history.earlier[end - 1]
        return [] if best < 0 else _continuation(history.tokens, best, room)

    def _match_length(self, tokens: list[int], end: int) -> int:
        """How many tokens before `end` equal the last tokens, at most `max_match`."""
        length, last = self.min_match, len(tokens)
        while length < min(self.max_match, end) and tokens[end - 1 - length] == tokens[last - 1 - length]:
            length += 1
        return length


class LookupSource:
    """One request's lookups, as chains."""

    def __init__(self) -> None:
        self._lookup, self._history = LookupDrafter(), _History()
        self._draft: list[int] = []

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        self._lookup._extend(self._history, [int(token) for token in tokens])

    def propose(self, budget: int, depth: int) -> Tree:
        """At most `budget` tokens and no more than `depth`."""
        draft = self._draft = self._lookup._propose(self._history, min(budget, depth))
        rates, match = self._history.rates, self._history.match
        return chain_tree(draft, [rates.rate(match + place) for place in range(len(draft))])

    def learn(self, committed: Sequence[int]) -> None:
        """What the last proposal was worth: `committed` came instead, and is not yet read."""
        pairs = list(zip(self._draft, committed, strict=False))
        right = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        for place in range(min(right + 1, len(pairs))):
            self._history.rates.observe(self._history.match + place, place < right)
        self._draft = []


def _continuation(tokens: list[int], begin: int, room: int) -> list[int]:
    """`room` tokens from `begin` on; past the end it goes on reading its own draft, so that a loop is drafted whole."""
    copied = tokens[begin : begin + room]
    period = len(tokens) - begin
    while len(copied) < room:
        copied.append(copied[len(copied) - period])
    return copied

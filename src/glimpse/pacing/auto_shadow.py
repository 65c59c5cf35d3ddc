"""What a drafter would have done, without letting it: its rounds replayed on the text that was written anyway.

Drafts do not change the text, so after the tokens of a round are there, it is known how many of a proposal would have
been accepted. A shadow proposes where its last round would have ended, prices its nodes as the pacer `marginal` would,
follows the text until it leaves the nodes that would have been verified, and counts tokens and costs. That is the
drafter's own run, but for the logits of nodes that were never verified, and costs a fraction of a millisecond a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glimpse.drafting.reader import Reader
from glimpse.drafting.tree import HostSource
from glimpse.pacing.proposals import Proposal, Trust
from glimpse.pacing.worth import worthwhile

HALF_LIFE = 32
"""Tokens after which what was seen counts half."""
PRIOR_TOKENS = 8
"""How many tokens the first guess of a drafter's speed is worth."""
NODES = 16
"""A shadow's tree has no more: those of higher rank hardly change who is the best."""


@dataclass(frozen=True, slots=True)
class Market:
    """What the steps of one row cost now, in seconds."""

    plain: float
    """The row's share of a plain step."""
    begin: float
    """Its share of a step that verifies, nodes not counted."""
    node: float
    """What each node adds."""

    def steps(self, nodes: int, host: float) -> float:
        """A round that verifies `nodes` nodes and takes `host` seconds of drafting, in plain steps."""
        seconds = self.begin + nodes * self.node if nodes else self.plain
        return (seconds + host) / self.plain


@dataclass(slots=True)
class Score:
    """Tokens a plain step's time, from exponential averages over the text; it begins with a guess."""

    guess: float
    tokens: float = 0.0
    """Seen, without the guess."""
    steps: float = 0.0
    weight: float = float(PRIOR_TOKENS)
    """Plain steps that the guess is still worth."""

    def add(self, tokens: int, steps: float) -> None:
        """A round that gave so many tokens in the time of so many plain steps."""
        keep = 0.5 ** (tokens / HALF_LIFE)
        self.tokens, self.steps = keep * self.tokens + tokens, keep * self.steps + steps
        self.weight *= keep

    def scale(self, factor: float) -> None:
        """What was seen was so much better or worse than it would be now."""
        self.tokens, self.guess = factor * self.tokens, factor * self.guess

    @property
    def speed(self) -> float:
        """Over plain decoding."""
        return (self.tokens + self.guess * self.weight) / (self.steps + self.weight)


@dataclass(slots=True)
class _Round:
    proposal: Proposal
    children: dict[tuple[int, int], int]
    """(parent, token) -> node, of the nodes that would be verified."""
    node: int = -1
    text: list[int] = field(default_factory=list)
    """Tokens since it began."""


@dataclass(slots=True)
class Shadow:
    """One drafter beside one row."""

    score: Score
    trust: Trust = field(default_factory=Trust)
    """Shared with the pacer that prices the drafter's nodes when it is chosen."""
    _reader: Reader[HostSource] | None = None
    _round: _Round | None = None

    def wake(self, reader: Reader[HostSource]) -> None:
        """Scores the text that follows; `reader` has read all there is."""
        self._reader = reader

    def sleep(self) -> None:
        """Drops the round under way. What it has not read it reads before it is needed again."""
        if self._reader is not None:
            self._reader.source.learn([])
        self._reader = self._round = None

    def follow(self, tokens: list[int], market: Market, host: float) -> None:
        """The row's next tokens; `host`: what a round of drafting takes on the host."""
        if self._reader is None:
            return
        for token in tokens:
            now = self._round or self._begin(self._reader, market)
            now.text.append(token)
            child = now.children.get((now.node, token))
            if child is None:
                self._end(self._reader, now, market, host)
            else:
                now.node = child

    def _begin(self, reader: Reader[HostSource], market: Market) -> _Round:
        proposal = Proposal.of_tree(reader.source.propose(NODES, NODES))
        if not len(proposal.tokens):
            self._round = _Round(proposal, {})
            return self._round
        gains = proposal.along(self.trust.chances(proposal))
        (kept,) = worthwhile([gains], [market.node], 1, (market.begin, market.plain))
        self._round = _Round(proposal, proposal.children(kept))
        return self._round

    def _end(self, reader: Reader[HostSource], now: _Round, market: Market, host: float) -> None:
        self.score.add(len(now.text), market.steps(len(now.children), host))
        if len(now.proposal.tokens):
            self.trust.learn(now.proposal, now.text)
        reader.source.learn(now.text)
        reader.read(now.text)
        self._round = None

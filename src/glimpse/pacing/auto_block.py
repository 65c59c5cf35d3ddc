"""What `auto` knows of a row's block drafts.

Blocks have no shadow: to know what a block would be, masks have to ride. So they are judged by their own rounds, of
this request, in which all that rode is paid for; before any, and at each trial, by prices and by how much of a block is
usually accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glimpse.drafting.drafter import Outcome
from glimpse.pacing.auto_shadow import Market, Score
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.proposals import Trust
from glimpse.pacing.riding import FIRST_GUESS

MOST = 1.2
"""No guess is higher: only rounds that ran say that blocks are much faster."""


@dataclass(slots=True)
class Blocks:
    """Block drafts beside one row."""

    score: Score = field(default_factory=lambda: Score(1.0))
    """As fast as plain decoding, until prices are known (`hope`)."""
    trust: Trust = field(default_factory=Trust)

    def hope(self, costs: StepCosts, market: Market, masks: int, length: int) -> None:
        """Takes them for at least as fast as prices say: a block of `masks`, the group of the next one, 2 accepted."""
        seconds = market.begin + masks * market.node + riding_seconds(costs, masks, masks, length)
        guess = min(MOST, (1 + FIRST_GUESS) * market.plain / seconds)
        if guess > self.score.speed:
            self.score = Score(guess)

    def add(self, outcome: Outcome, steps: float) -> None:
        """A round that ran, in plain steps (`round_steps`)."""
        self.score.add(len(outcome.tokens), steps)


def round_steps(costs: StepCosts, market: Market, outcome: Outcome, masks: int, length: int) -> float:
    """What a row's step took in plain steps: what it verified, and the mask tokens that rode on it."""
    return market.steps(outcome.drafted, riding_seconds(costs, outcome.riding, masks, length))


def riding_seconds(costs: StepCosts, riding: int, masks: int, length: int) -> float:
    """Seconds that `riding` mask tokens, in groups of `masks`, add to a step that reads `length` positions.

    The step's observed time holds what the head took too, so the prices of mask tokens do.
    """
    if not riding:
        return 0.0
    return float(costs.marginal(draft_tokens=riding, draft_kv=riding // masks * length, riding=1))

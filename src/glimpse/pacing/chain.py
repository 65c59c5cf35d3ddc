"""The marginal criterion for chains that the target drafts itself, a token a forward (LibraSpec, arXiv 2608.08721).

A block of one token, so the criterion has two uses. Credit: after every token, another is drafted while some longer
draft has a higher rate of tokens, by the chances of what is there and the running acceptance for what is not. Rollback:
of what was drafted those tokens are verified that make

    (1 + sum of P(token i is accepted)) / (seconds of drafting all + seconds of a step + price of each token verified)

greatest. Drafting is spent by then, so a token is given back only where it is hardly worth its place in the
verification. The chances are those of `reliability`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.entropy import EntropyPacer
from glimpse.pacing.pacer import Decisions, PaceContext
from glimpse.pacing.proposals import Floats
from glimpse.pacing.reliability import Reliability, log_odds
from glimpse.pacing.worth import worthwhile


@dataclass(slots=True)
class _Drawn:
    reliability: Reliability = field(default_factory=Reliability)
    margins: list[float] = field(default_factory=list)
    """Of the draft under way, where they are told."""


class MarginalChainPacer(EntropyPacer):
    """Decides as `entropy` does, by margins instead of entropies, and gives back what is not worth verifying.

    Under a rule that has to verify all that was drawn (`rejection`) it gives nothing back.
    """

    name = "marginal"
    candidates = 2

    def __init__(self, context: PaceContext) -> None:
        super().__init__(context)
        self.rolls_back = context.may_drop
        self._rule = {"same_noise": context.same_noise, "own_noise": context.may_drop and not context.same_noise}
        self._drawn: dict[int, _Drawn] = {}

    def admit(self, rows: RowView) -> None:
        """Start values for each request."""
        super().admit(rows)
        for slot in rows.slots:
            self._drawn[slot] = _Drawn()

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft one more where some longer draft is worth more per second than verifying now."""
        for slot, have in zip(rows.slots, rows.column(rows.rows.draft_len), strict=True):
            if not have:
                self._drawn[slot].margins.clear()
        return super().decide(rows, room)

    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """The two likeliest draws of the row's newest draft token."""
        self._drawn[slot].margins.append(float(scores[0] - scores[1]))

    def trim(self, rows: RowView) -> list[int]:
        """How many tokens of each chain are worth verifying; all of one that was drafted as a trial."""
        drafted = rows.column(rows.rows.draft_len)
        chances = [self._of(rows, slot, have) for slot, have in zip(rows.slots, drafted, strict=True)]
        gains: list[Floats] = [np.asarray(np.cumprod(own), np.float64) for own in chances]
        spent = self._prices.spent(rows, drafted)
        kept = worthwhile(gains, self._prices.of_tokens(rows), len(rows), (spent, spent))
        return [
            have if self._states[slot].probe.due else len(nodes)
            for slot, have, nodes in zip(rows.slots, drafted, kept, strict=True)
        ]

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Moves the running acceptance and the reliability by the tokens that were judged."""
        super().observe(rows, outcomes)
        for outcome in outcomes:
            drawn, judged = self._drawn[outcome.slot], min(outcome.accepted + 1, outcome.drafted)
            for index, odds in enumerate(self._odds(rows, outcome.slot, judged).tolist()):
                drawn.reliability.learn(odds, index < outcome.accepted)
            drawn.margins.clear()

    def retire(self, rows: RowView) -> None:
        """Drops what was learned."""
        super().retire(rows)
        for slot in rows.slots:
            self._drawn.pop(slot, None)

    def _chances(self, rows: RowView, have: np.ndarray, count: int) -> np.ndarray:
        """[R, count]: P(accepted, given that all before it were) of each draft token, there or still to come."""
        chances = np.repeat([[self._states[slot].survival] for slot in rows.slots], count, 1)
        for own, slot, drafted in zip(chances, rows.slots, have.tolist(), strict=True):
            own[:drafted] = self._of(rows, slot, drafted)[:count]
        return np.asarray(chances)

    def _of(self, rows: RowView, slot: int, drafted: int) -> Floats:
        """[drafted]: the chances of the row's first draft tokens."""
        return self._drawn[slot].reliability.chances(self._odds(rows, slot, drafted))

    def _odds(self, rows: RowView, slot: int, drafted: int) -> Floats:
        own, margins = rows.rows, np.full(drafted, np.nan)
        heard = self._drawn[slot].margins[:drafted]
        margins[: len(heard)] = heard
        said = own.draft_confidence.numpy()[slot, :drafted].astype(np.float64)
        entropy = own.draft_entropy.numpy()[slot, :drafted].astype(np.float64)
        return log_odds(said, entropy, margins, **self._rule)

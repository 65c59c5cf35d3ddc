"""Draft lengths from the entropy of what was drafted and the measured price of a step (SparseSpec-L, arXiv 2607.27735).

The paper keeps two moving averages, the mean entropy of accepted and of rejected drafts, and takes for the survival of
a new token the softmax over minus its distances to them. That says which of two drafts is likelier to survive, but not
how likely: two classes half a nat apart give a survival of 0.62 where 0.9 is measured. So the evidence of the distances
is added, in log-odds, to the running acceptance rate, less its own running mean; with a rate of one half and no mean it
is the paper's formula. Expected tokens per time are then compared for every length, as in the paper:

    k* = argmax over k of (1 + sum over m <= k of p_1 ... p_m) / (begin + k C_d + C_v(k))

It is used online: after each draft token the row goes on only if some longer draft has a higher ratio, where tokens not
yet drafted survive at the running rate. Stopping after a token was seen, and verifying all, is exact under every rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer
from glimpse.pacing.probe import Probe
from glimpse.pacing.rounds import RoundPrices, confidences

DECAY = 0.95
"""Weight of the past in every moving average, per verified token."""
START_SURVIVAL, SUREST = 0.85, 0.995
"""P(accepted) at first, and the most that is ever believed."""
START_ACCEPTED, START_REJECTED = 0.6, 1.8
"""Start values: entropies in nats of accepted and rejected drafts. Some twenty verified tokens leave them behind."""


@dataclass(slots=True)
class _RowState:
    survival: float = START_SURVIVAL
    accepted: float = START_ACCEPTED
    rejected: float = START_REJECTED
    evidence: float = 0.0
    probe: Probe = field(default_factory=Probe)

    @property
    def logit(self) -> float:
        """The log-odds that a token survives of which nothing is known, less the mean evidence."""
        return math.log(self.survival / (1 - self.survival)) - self.evidence

    def learn(self, entropy: float, survived: bool) -> None:
        """Counts one verified token."""
        self.evidence = _average(self.evidence, abs(entropy - self.rejected) - abs(entropy - self.accepted))
        self.survival = min(max(_average(self.survival, float(survived)), 0.02), SUREST)
        if survived:
            self.accepted = _average(self.accepted, entropy)
        else:
            self.rejected = _average(self.rejected, entropy)


def _average(old: float, new: float) -> float:
    return DECAY * old + (1 - DECAY) * new


class EntropyPacer(Pacer):
    """Drafts while expected tokens per second rise; decodes plainly where no length beats it, and tries again later."""

    name = "entropy"
    foretells = False
    DEFAULT_MOST = 16

    def __init__(self, context: PaceContext) -> None:
        self._prices = RoundPrices(context.costs, context.draft_positions)
        self._at_once = context.drafts_at_once
        asked = self.DEFAULT_MOST if context.draft_tokens is None else context.draft_tokens
        self.most = asked if context.can_draft else 0
        self._states: dict[int, _RowState] = {}

    @classmethod
    def build(cls, context: PaceContext) -> EntropyPacer:
        """With the longest draft asked for."""
        return cls(context)

    def admit(self, rows: RowView) -> None:
        """Start values for each request."""
        for slot in rows.slots:
            self._states[slot] = _RowState()

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """Draft one more where some longer draft is worth more per second than verifying now."""
        drafted = rows.column(rows.rows.draft_len)
        more = [min(self.most - have, most) for have, most in zip(drafted, room, strict=True)]
        if not any(drafted) and self._prices.plain_is_unknown(rows):
            return Decisions([Action.PLAIN] * len(rows), [0] * len(rows))
        if self._at_once:
            return Decisions([Action.DRAFT if left > 0 else Action.PLAIN for left in more], more)
        actions = self._decide_one_more(rows, np.array(drafted), np.array(more))
        return Decisions(actions, more, holds=min(self._states[slot].probe.left() for slot in rows.slots))

    def trim(self, rows: RowView) -> list[int]:
        """The length of each deterministic draft with the most expected tokens per second, by the drafter's word."""
        drafted = rows.column(rows.rows.draft_len)
        if not any(drafted):
            return drafted
        rates = self._prices.rates(rows, confidences(rows, drafted), drafting=False)
        return [
            best if best or not self._states[slot].probe.due else min(have, 2)
            for slot, have, best in zip(rows.slots, drafted, rates.argmax(1).tolist(), strict=True)
        ]

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Moves the averages by the tokens that were judged: the accepted ones and the first rejected."""
        for outcome in outcomes:
            state = self._states[outcome.slot]
            state.probe.count(bool(outcome.drafted))
            if not outcome.drafted or self._at_once:
                continue
            judged = min(outcome.accepted + 1, outcome.drafted)
            for index, entropy in enumerate(rows.rows.draft_entropy[outcome.slot, :judged].tolist()):
                state.learn(entropy, index < outcome.accepted)

    def speeds(self, rows: RowView) -> list[float]:
        """The best expected rate of each row with drafts of any length, over plain decoding, by its running acceptance.

        0 where no draft is allowed.
        """
        if not self.most:
            return [0.0] * len(rows)
        running = np.array([[self._states[slot].survival] for slot in rows.slots])
        rates = self._prices.rates(rows, np.repeat(running, self.most, 1), drafting=True)
        found: list[float] = (rates[:, 1:].max(1) / rates[:, 0]).tolist()
        return found

    def cost(self, row: RowView, drafted: int) -> float:
        """What one row's round of so many draft tokens takes, in plain steps."""
        seconds = 1 / self._prices.rates(row, np.zeros((1, drafted)), drafting=True)[0]
        return float(seconds[-1] / seconds[0])

    def hope(self, slot: int, survival: float) -> None:
        """Takes a row's acceptance for at least `survival`, whatever it was when it last drafted."""
        self._states[slot].survival = max(survival, self._states[slot].survival)

    def retire(self, rows: RowView) -> None:
        """Drops the averages."""
        for slot in rows.slots:
            self._states.pop(slot, None)

    def _decide_one_more(self, rows: RowView, have: np.ndarray, left: np.ndarray) -> list[Action]:
        """For drafts of `have` [R] tokens and room for `left` [R] more."""
        columns = np.arange(max(1, int((have + np.maximum(left, 0)).max())))
        chances = self._chances(rows, have, len(columns))
        # A token there is no room for adds nothing, and costs.
        rates = self._prices.rates(rows, np.where(columns < (have + left)[:, None], chances, 0.0), drafting=True)
        now = np.take_along_axis(rates, have[:, None], 1)[:, 0]
        later = np.where(np.arange(rates.shape[1]) > have[:, None], rates, -np.inf).max(1)
        drafts = (left > 0) & ((later > now) | ((have == 0) & self._worth_trying(rows, len(columns))))
        return [
            Action.DRAFT if more else Action.VERIFY if some else Action.PLAIN
            for more, some in zip(drafts.tolist(), have.tolist(), strict=True)
        ]

    def _worth_trying(self, rows: RowView, most: int) -> np.ndarray:
        """[R] bool: rows whose trial is due, and would pay if nearly all of a draft were accepted."""
        due = np.array([self._states[slot].probe.due for slot in rows.slots])
        if not due.any():
            return due
        rates = self._prices.rates(rows, np.full((len(due), most), SUREST), drafting=True)
        return np.asarray(due & (rates.max(1) > rates[:, 0]))

    def _chances(self, rows: RowView, have: np.ndarray, count: int) -> np.ndarray:
        """[R, count]: P(accepted, given that all before it were) of each draft token, there or still to come."""
        states = [self._states[slot] for slot in rows.slots]
        entropies = np.zeros((len(states), count))
        there = rows.rows.draft_entropy[list(rows.slots), :count].numpy()
        entropies[:, : there.shape[1]] = there
        running = np.array([[state.survival] for state in states])
        return np.where(np.arange(count) < have[:, None], survivals(states, entropies), running)


def survivals(states: Sequence[_RowState], entropies: np.ndarray) -> np.ndarray:
    """[R, k]: P(accepted, given that all before it were) of R rows' draft tokens with these entropies [R, k]."""
    facts = np.array([(state.logit, state.rejected, state.accepted) for state in states])
    logit, rejected, accepted = (column[:, None] for column in facts.T)
    evidence = np.abs(entropies - rejected) - np.abs(entropies - accepted)
    return np.asarray(1 / (1 + np.exp(-(logit + evidence))))

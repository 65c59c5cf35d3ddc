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
from dataclasses import dataclass

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.pacer import Action, Decisions, PaceContext

DECAY = 0.95
"""Weight of the past in every moving average, per verified token."""
START_SURVIVAL = 0.85
START_ACCEPTED, START_REJECTED = 0.6, 1.8
"""Start values: entropies in nats of accepted and rejected drafts. Some twenty verified tokens leave them behind."""
PLAIN_FIRST = 2
"""Plain steps that are run before the first draft; they write text like any other."""
FIRST_PROBE, LAST_PROBE = 48, 384
"""Plain tokens after which drafting is tried again; doubled each time it does not pay."""


@dataclass(slots=True)
class _RowState:
    survival: float = START_SURVIVAL
    accepted: float = START_ACCEPTED
    rejected: float = START_REJECTED
    evidence: float = 0.0
    plain_streak: int = 0
    probing: bool = False
    probe_after: int = FIRST_PROBE

    def survivals(self, entropies: np.ndarray) -> np.ndarray:
        """P(accepted, given that all before it were) of draft tokens with these entropies."""
        logit = math.log(self.survival / (1 - self.survival))
        evidence = self._evidence(entropies) - self.evidence
        return np.asarray(1 / (1 + np.exp(-(logit + evidence))))

    def learn(self, entropy: float, survived: bool) -> None:
        """Counts one verified token."""
        self.evidence = _average(self.evidence, float(self._evidence(np.array(entropy))))
        self.survival = min(max(_average(self.survival, float(survived)), 0.02), 0.995)
        if survived:
            self.accepted = _average(self.accepted, entropy)
        else:
            self.rejected = _average(self.rejected, entropy)

    def count(self, drafted: bool) -> None:
        """Counts one step, and whether it verified a draft; after enough plain ones a draft is tried all the same."""
        self.plain_streak = 0 if drafted else self.plain_streak + 1
        if drafted and self.probing:
            self.probing = False
            self.probe_after = min(2 * self.probe_after, LAST_PROBE)
        elif drafted:
            self.probe_after = FIRST_PROBE
        elif self.plain_streak >= self.probe_after:
            self.probing = True

    def _evidence(self, entropies: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(entropies - self.rejected) - np.abs(entropies - self.accepted))


def _average(old: float, new: float) -> float:
    return DECAY * old + (1 - DECAY) * new


class EntropyPacer:
    """Drafts while expected tokens per second rise; decodes plainly where no length beats it, and tries again later."""

    name = "entropy"
    DEFAULT_MOST = 16

    def __init__(self, context: PaceContext) -> None:
        self._costs: StepCosts = context.costs
        self._at_once = context.drafts_at_once
        self._positions = context.draft_positions
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
        if not any(drafted) and self._plain_is_unknown(rows):
            return Decisions([Action.PLAIN] * len(rows), [0] * len(rows))
        choose = self._decide_at_once if self._at_once else self._decide_one_more
        return Decisions([choose(rows, slot, left) for slot, left in zip(rows.slots, more, strict=True)], more)

    def trim(self, rows: RowView) -> list[int]:
        """The length of each deterministic draft with the most expected tokens per second, by the drafter's word."""
        return [self._best_cut(rows, slot) for slot in rows.slots]

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Moves the averages by the tokens that were judged: the accepted ones and the first rejected."""
        for outcome in outcomes:
            state = self._states[outcome.slot]
            state.count(bool(outcome.drafted))
            if not outcome.drafted or self._at_once:
                continue
            judged = min(outcome.accepted + 1, outcome.drafted)
            for index, entropy in enumerate(rows.rows.draft_entropy[outcome.slot, :judged].tolist()):
                state.learn(entropy, index < outcome.accepted)

    def retire(self, rows: RowView) -> None:
        """Drops the averages."""
        for slot in rows.slots:
            self._states.pop(slot, None)

    def _plain_is_unknown(self, rows: RowView) -> bool:
        """Whether plain steps of these rows have hardly run yet: they are what drafting must beat."""
        lengths = rows.column(rows.rows.committed_len)
        plain = StepLoad(full_tokens=len(rows), full_kv=sum(lengths), pairs=sum(lengths))
        return self._costs.seen(plain) < PLAIN_FIRST

    def _decide_at_once(self, rows: RowView, slot: int, left: int) -> Action:
        return Action.DRAFT if left > 0 else Action.PLAIN

    def _decide_one_more(self, rows: RowView, slot: int, left: int) -> Action:
        have, state = int(rows.rows.draft_len[slot]), self._states[slot]
        if left <= 0:
            return Action.VERIFY if have else Action.PLAIN
        entropies = rows.rows.draft_entropy[slot, :have].numpy()
        chances = np.concatenate([state.survivals(entropies), np.full(left, state.survival)])
        rates = self._rates(rows, slot, chances, drafting=True)
        if have:
            return Action.DRAFT if rates[have + 1 :].max() > rates[have] else Action.VERIFY
        return Action.DRAFT if rates[1:].max() > rates[0] or state.probing else Action.PLAIN

    def _best_cut(self, rows: RowView, slot: int) -> int:
        have = int(rows.rows.draft_len[slot])
        if not have:
            return 0
        rates = self._rates(rows, slot, rows.rows.draft_confidence[slot, :have].numpy(), drafting=False)
        best = int(rates.argmax())
        return best if best or not self._states[slot].probing else min(have, 2)

    def _rates(self, rows: RowView, slot: int, chances: np.ndarray, *, drafting: bool) -> np.ndarray:
        """[k + 1]: expected tokens per second of verifying 0 (plain decoding), 1, ..., k draft tokens."""
        tokens = 1 + np.concatenate([[0.0], np.cumsum(np.cumprod(chances))])
        length, sharing, counts = int(rows.rows.committed_len[slot]), len(rows), np.arange(len(chances) + 1)
        plain, one_more = (self._full(count, length, sharing) for count in (1, 2))
        seconds = plain + (one_more - plain) * counts
        if drafting:
            step = StepLoad(draft_tokens=1, draft_kv=self._positions(length))
            begin = self._costs.seconds(StepLoad(rounds=1)) - self._costs.seconds(StepLoad())
            seconds[1:] += begin + self._costs.share(step, sharing) * counts[1:]
        return np.asarray(tokens / seconds)

    def _full(self, count: int, length: int, sharing: int) -> float:
        load = StepLoad(full_tokens=count, full_kv=length + count, pairs=count * length)
        return self._costs.share(load, sharing)

"""A batch replayed: real pacers over measured acceptance, in engine steps whose seconds a cost surface gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chances import OMEGA, PRIOR
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.feedback import FeedbackPacer
from glimpse.pacing.fixed import FixedPacer
from glimpse.pacing.fleet import FleetPacer
from glimpse.pacing.pacer import Action, Decisions, PaceContext, Pacer, draft_up_to
from glimpse.pacing.synchronised import SynchronisedPacer

Traces = Sequence[Sequence[Sequence[int]]]
"""For each text, for each round in turn, whether the draft token at each depth is right."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What the steps of a batch cost."""

    coefficients: tuple[float, ...]
    """Seconds per unit of `StepLoad.features`."""
    length: int
    rows: int
    read: int
    """Positions that a draft step reads."""

    def seconds(self, load: StepLoad) -> float:
        """Of one step."""
        return float(load.features() @ np.array(self.coefficients))


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of a batch's steps on an H200 (`h200-decode.json`, T=0.7; `h200-mixed.json`)."""

    rows: int
    length: int
    step: float
    """What a step takes whatever it carries: a draft step of one row."""
    draft: float
    plain: float
    verify: float
    """Of 4 drafts a row."""
    mixed: float
    """What a step in which some rows draft and some verify takes longer than the sum of its parts."""

    @property
    def surface(self) -> Surface:
        """The linear surface through these points."""
        token = (self.verify - self.plain) / (4 * self.rows)
        position = ((self.plain - self.step) / self.rows - token) / self.length
        read = max(256, self.length // 14)
        each = (self.draft - self.step) / self.rows
        ms = (self.step, token, each / 2, position, each / 2 / read, 0.0, 0.0, self.mixed, 0.0)
        return Surface(tuple(1e-3 * value for value in ms), self.length, self.rows, read)


SURFACES: Mapping[str, Surface] = {
    "135M, 64 x 8K": Measured(64, 8192, 0.51, 0.88, 3.43, 4.35, 0.75).surface,
    "1.7B cost, 32 x 8K": Measured(32, 8192, 1.7, 2.64, 8.90, 10.06, 0.75).surface,
    "8B cost, 64 x 8K": Measured(64, 8192, 4.68, 6.00, 22.10, 25.45, 0.75).surface,
    "8B cost, 16 x 32K": Measured(16, 32768, 4.71, 5.05, 19.65, 23.28, 0.75).surface,
}


class PaperChances:
    """ASPIRE's estimate: one acceptance a request, alike at all depths; in the place of `DepthChances`."""

    def __init__(self, most: int) -> None:
        self.most, self._alpha = most, {}

    def admit(self, slot: int) -> None:
        self._alpha[slot] = PRIOR

    def retire(self, slot: int) -> None:
        self._alpha.pop(slot, None)

    def learn(self, slot: int, drafted: int, accepted: int) -> None:
        found = accepted / min(accepted + 1, drafted)
        self._alpha[slot] = OMEGA * self._alpha[slot] + (1 - OMEGA) * found

    def of(self, slots: tuple[int, ...]) -> np.ndarray:
        return np.array([[self._alpha[slot]] * self.most for slot in slots])


def paper(pacer: FleetPacer) -> FleetPacer:
    """With the paper's estimate of acceptance."""
    pacer._chances = PaperChances(pacer.most)
    return pacer


class Alone(FleetPacer):
    """ASPIRE's rule: each row verifies at its own best length, whatever the others do."""

    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        if not any(rows.column(rows.rows.draft_len)) and self._plain_is_unknown(rows):
            return super().decide(rows, room)
        rates = self._prices.rates(rows, self._chances.of(rows.slots), drafting=True)
        return draft_up_to(rates.argmax(1).tolist(), rows, room)


ARMS: Mapping[str, Callable[[PaceContext], Pacer]] = {
    **{f"fixed {length}": (lambda context, length=length: FixedPacer(length)) for length in (0, 2, 3, 4, 5, 6, 8)},
    "synchronised 5": lambda context: SynchronisedPacer(5),
    "feedback": FeedbackPacer.build,
    "fleet, one acceptance a request": lambda context: paper(FleetPacer(context)),
    "each row alone": Alone.build,
    "fleet": FleetPacer.build,
}


@dataclass(slots=True)
class Replayed:
    """What a replay yields, after its warm-up."""

    tokens: np.ndarray
    """[rows]: tokens written."""
    seconds: float = 0.0
    drafted: int = 0
    rounds: int = 0


class Replay:
    """One batch under one pacer; a row that has come to its text's end begins it again."""

    def __init__(self, make: Callable[[PaceContext], Pacer], traces: Traces, made: Surface, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._surface, self._most = made, len(traces[0][0])
        wrong = self._random.uniform(0.5, 2.0, len(made.coefficients))
        self._costs = StepCosts(1, 1, start=np.array(made.coefficients) * wrong + 1e-12)
        self._pacer = make(PaceContext(self._costs, self._most, False, lambda length: made.read))
        rows = Rows(made.rows, made.length + self._most + 1, self._most)
        rows.committed_len[:] = made.length
        self._view = RowView(rows, tuple(range(made.rows)))
        self._traces = [traces[row % len(traces)] for row in range(made.rows)]
        self._turn = [int(self._random.integers(len(trace))) for trace in self._traces]
        self._pacer.admit(self._view)
        self._foretold: list[list[Action]] = []

    def run(self, steps: int, warm_up: int) -> Replayed:
        """`steps` engine steps after `warm_up` others."""
        found = Replayed(np.zeros(self._surface.rows))
        for step in range(-warm_up, steps):
            self._step(found if step >= 0 else Replayed(np.zeros(self._surface.rows)))
        return found

    def _step(self, found: Replayed) -> None:
        rows, made = self._view.rows, self._surface
        have = rows.draft_len.tolist()
        load, outcomes = StepLoad(), []
        for slot, action in enumerate(self._actions(have)):
            if action is Action.DRAFT:
                load += StepLoad(draft_tokens=1, draft_kv=made.read, rounds=int(not have[slot]))
                rows.draft_len[slot] += 1
            else:
                count = have[slot] + 1
                load += StepLoad(full_tokens=count, full_kv=made.length + count, pairs=count * made.length)
                outcomes.append(self._verified(slot, have[slot]))
        load = replace(load, mixed=int(bool(load.draft_tokens and load.full_tokens)))
        seconds = made.seconds(load)
        self._costs.observe(load, seconds * self._random.normal(1, 0.02))
        found.seconds += seconds
        if outcomes:
            self._pacer.observe(RowView(rows, tuple(outcome.slot for outcome in outcomes)), outcomes)
        for outcome in outcomes:
            rows.draft_len[outcome.slot] = 0
            found.tokens[outcome.slot] += outcome.accepted + 1
            found.drafted += outcome.drafted
            found.rounds += outcome.drafted > 0

    def _actions(self, have: list[int]) -> list[Action]:
        """By row. Nobody asks within a burst, nor before the verification that closes one, as on a GPU."""
        if not self._foretold:
            found = self._pacer.decide(self._view, [self._most - drafted for drafted in have])
            self._foretold = [found.actions] * max(1, found.burst)
            self._foretold += [[Action.VERIFY] * len(have)] * found.closes
        return self._foretold.pop(0)

    def _verified(self, slot: int, drafted: int) -> Outcome:
        if not drafted:
            return Outcome(slot, 0, 0, [0])
        trace = self._traces[slot]
        right = [*trace[self._turn[slot] % len(trace)][:drafted], 0]
        self._turn[slot] += 1
        return Outcome(slot, drafted, right.index(0), [0] * (right.index(0) + 1))

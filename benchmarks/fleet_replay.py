"""A batch replayed: real pacers over measured acceptance, in engine steps whose seconds a cost surface gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chances import OMEGA, PRIOR
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.feedback import FeedbackPacer
from glimpse.pacing.fixed import FixedPacer
from glimpse.pacing.fleet import FleetPacer
from glimpse.pacing.pacer import Action, PaceContext, Pacer
from glimpse.pacing.synchronised import SynchronisedPacer

Traces = Sequence[Sequence[Sequence[int]]]
"""For each text, for each round in turn, whether the draft token at each depth is right."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What a step costs, as made-up hardware has it: bytes over a bandwidth, and arithmetic past `free` tokens."""

    coefficients: tuple[float, ...]
    """Seconds per unit of `StepLoad.features`."""
    length: int
    rows: int
    read: int
    """Positions that a draft step reads."""
    free: int
    """Query tokens of a step up to which arithmetic hides behind the weights' bytes."""

    def seconds(self, load: StepLoad) -> float:
        """Of one step."""
        tokens = load.full_tokens + load.draft_tokens
        return float(load.features() @ np.array(self.coefficients)) + self.arithmetic(tokens)

    def arithmetic(self, tokens: float) -> float:
        """Seconds of products that do not hide."""
        return max(0.0, tokens - self.free) / self.free * self.coefficients[0]


def surface(weights: float, position: float, length: int, rows: int, bandwidth: float = 4.0e12) -> Surface:
    """A GPU that reads `weights` bytes a step and `position` bytes for each position of a cache."""
    step, kv = weights / bandwidth, position / bandwidth
    token = 0.001 * step
    return Surface((step, token, token, kv, 1.2 * kv, 0.0, 0.01 * step), length, rows, max(256, length // 14), 180)


SURFACES: Mapping[str, Surface] = {
    "135M cost, 64 x 8K": surface(0.27e9, 23_040, 8192, 64),
    "1.7B cost, 32 x 8K": surface(3.4e9, 122_880, 8192, 32),
    "8B cost, 64 x 8K": surface(15.0e9, 131_072, 8192, 64),
    "8B cost, 16 x 32K": surface(15.0e9, 131_072, 32768, 16),
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


class Together(FleetPacer):
    """Without spreading the first drafts."""

    def admit(self, rows: RowView) -> None:
        super().admit(rows)
        self._first.clear()


ARMS: Mapping[str, Callable[[PaceContext], Pacer]] = {
    **{f"fixed {length}": (lambda context, length=length: FixedPacer(length)) for length in (0, 2, 3, 4, 5, 6, 8)},
    "synchronised 5": lambda context: SynchronisedPacer(5),
    "feedback": FeedbackPacer.build,
    "fleet, one acceptance a request": lambda context: paper(FleetPacer(context)),
    "fleet, first drafts alike": Together.build,
    "fleet": FleetPacer.build,
}


@dataclass(slots=True)
class Replayed:
    """What a replay yields, after its warm-up."""

    tokens: np.ndarray
    """[rows]: tokens written."""
    seconds: float = 0.0
    carried: list[int] = field(default_factory=list)
    """Query tokens of each step."""
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
        decisions = self._pacer.decide(self._view, [self._most - drafted for drafted in have])
        for slot, action in enumerate(decisions.actions):
            if action is Action.DRAFT:
                load += StepLoad(draft_tokens=1, draft_kv=made.read, rounds=int(not have[slot]))
                rows.draft_len[slot] += 1
            else:
                count = have[slot] + 1
                load += StepLoad(full_tokens=count, full_kv=made.length + count, pairs=count * made.length)
                outcomes.append(self._verified(slot, have[slot]))
        seconds = made.seconds(load)
        self._costs.observe(load, seconds * self._random.normal(1, 0.02))
        found.seconds += seconds
        found.carried.append(load.full_tokens + load.draft_tokens)
        if outcomes:
            self._pacer.observe(RowView(rows, tuple(outcome.slot for outcome in outcomes)), outcomes)
        for outcome in outcomes:
            rows.draft_len[outcome.slot] = 0
            found.tokens[outcome.slot] += outcome.accepted + 1
            found.drafted += outcome.drafted
            found.rounds += outcome.drafted > 0

    def _verified(self, slot: int, drafted: int) -> Outcome:
        if not drafted:
            return Outcome(slot, 0, 0, [0])
        trace = self._traces[slot]
        right = [*trace[self._turn[slot] % len(trace)][:drafted], 0]
        self._turn[slot] += 1
        return Outcome(slot, drafted, right.index(0), [0] * (right.index(0) + 1))

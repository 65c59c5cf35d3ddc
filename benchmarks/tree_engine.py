"""The device engine's pacing, padding, rests and shadows over answers written before: what the tree replays run.

Some rows, all of which begin together. Drafters, pacers, sizes of steps (`node_bucket`), rests (`Asking`) and shadows
are the engine's own. Of what a shadow's unit takes the clock has what the host has not to spare.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.auto_replay import MOST
from benchmarks.retrieval_acceptance import Answer
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence as Pages
from glimpse.drafting import DRAFTERS
from glimpse.drafting.auto_graphs import auto_on_graphs
from glimpse.drafting.drafter import DraftContext, Outcome, Successors
from glimpse.drafting.reader import late_of
from glimpse.engine.device.asking import Asking
from glimpse.engine.device.covering import node_bucket
from glimpse.engine.device.repeats import repeats_of
from glimpse.engine.device.shadows import Shadows
from glimpse.engine.device.watched import WatchedAsking
from glimpse.pacing import PACERS
from glimpse.pacing.costs import ON_GPU, StepCosts, StepLoad
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import PaceContext

ARMS = {
    "none": ("none", "fixed", 0),
    "8 nodes": ("racer", "fixed", 8),
    "32 nodes": ("racer", "fixed", 32),
    "63 nodes": ("racer", "fixed", 63),
    "racer": ("racer", "marginal", 64),
    "racer+suffix": ("racer+suffix", "marginal", 64),
    "auto": ("auto", "auto", 64),
    "auto, unwatched": ("auto", "auto", 64),
}
"""Drafter, pacer and the most nodes of each; those of `fixed` are told theirs."""


UNWATCHED = "auto, unwatched"
"""The same without shadows, whose rests end with tries only."""


@dataclass(frozen=True, slots=True)
class Device:
    """Seconds of steps of some rows, as the device times them, and what they wait for the host if they have drafts."""

    plain: float
    tree: float
    """Of a tree of no node."""
    token: float
    """More, of each query token that it runs with."""
    host: float
    weight_bytes: int
    kv_bytes: int
    rows: int = 1
    read: float = 0.7e-6
    """More, of each token of a text that is read for its first draft: new texts of 32 rows took 3 to 6 ms."""
    spare: float = 1.0
    """Of a plain step, in which the host waits: what shadows take beyond it makes the step longer."""

    def seconds(self, tokens: int) -> float:
        """Of a verification that runs with so many tokens."""
        return self.plain if tokens <= self.rows else self.tree + self.token * tokens


DEVICES = {
    # End to end: plain 4.85 ms, a tree of 64 tokens about 6; of the demo model 0.55 ms, asked and without a draft 0.75,
    # 0.9 and 1.15 with trees of 8 and 64 tokens.
    "h200-8b": Device(4.85e-3, 5.13e-3, 0.0105e-3, 0.20e-3, 16_060_000_000, 131_072),
    "h200-demo": Device(0.55e-3, 0.665e-3, 0.0045e-3, 0.20e-3, 269_000_000, 23_040, spare=0.15e-3),
    # As h200-retrieval had it at T=0.7: 1.31, 1.46 and 1.5 ms a step with at most 8, 32 and 63 nodes, end to end. Of a
    # plain step the host waits 0.1 to 0.15 ms. Guesses between those and what a batch of 32 showed: 0.77 ms plain, 1.3
    # asked and without a draft.
    "h200-demo-8": Device(0.60e-3, 0.70e-3, 0.0020e-3, 0.28e-3, 269_000_000, 23_040, rows=8, spare=0.1e-3),
    "h200-demo-32": Device(0.77e-3, 0.85e-3, 0.0010e-3, 0.45e-3, 269_000_000, 23_040, rows=32, spare=0.0),
    "h200-demo-slow": Device(0.55e-3, 0.665e-3, 0.0035e-3, 0.60e-3, 269_000_000, 23_040),
}


class Mark:
    """A moment of the replay's clock."""

    def __init__(self, at: float) -> None:
        self.at = at

    def since(self, earlier: Mark) -> float:
        """Seconds from an earlier one."""
        return self.at - earlier.at


@dataclass(slots=True)
class Count:
    """What came of some answers."""

    tokens: int = 0
    steps: int = 0
    nodes: int = 0
    rested: int = 0
    ran: int = 0
    """Query tokens that steps with drafts ran with."""
    captures: int = 0
    seconds: float = 0.0
    """Captures left out."""
    plain: float = 0.0
    """Steps that plain decoding takes for the same."""

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, name) + getattr(other, name) for name in Count.__slots__))

    def __str__(self) -> str:
        steps = max(1, self.steps - self.rested)
        each = f"tokens a step {self.tokens / self.steps:.2f}, nodes {self.nodes / self.steps:.1f}"
        return (
            f"{each}, rested {self.rested / self.steps:.2f}, ran with {self.ran / steps:.1f}, captures {self.captures}"
        )

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class Engine:
    """Some rows of the device engine, with one drafter and pacer."""

    def __init__(self, arm: str, device: Device, seed: int = 1) -> None:
        name, paced_by, most = ARMS[arm]
        self._device, self._noise = device, random.Random(seed)
        self.costs = StepCosts(device.weight_bytes, device.kv_bytes, shares=ON_GPU)
        offered = DRAFTERS.get(name)
        asked = most if paced_by == "fixed" and most else None
        context = PaceContext(self.costs, asked, not offered.needs_forward, RecallBudget().positions,
                              can_draft=offered.drafts, trees=True, on_gpu=True, padded=self._ran_with)  # fmt: skip
        self.pacer: Any = PACERS.get(paced_by).build(context)
        drafting = DraftContext(_pool(), RecallBudget(), nodes=max(1, min(self.pacer.most, MOST)))
        self.drafter: Any = auto_on_graphs(drafting) if name == "auto" else offered.build(drafting)
        self.pacer.attach(self.drafter)
        watched = arm != UNWATCHED and late_of(self.drafter) is not None and isinstance(self.pacer, MarginalPacer)
        waits = not self.pacer.foretells and name != "none"
        self._asking = (WatchedAsking() if watched else Asking()) if waits else None
        self._captured = set[int]()
        self._now, self._number, self._late = 0.0, 0, True

    def answer(self, answer: Answer) -> Count:
        """Writes one answer."""
        return self.together([answer])

    def together(self, answers: Sequence[Answer]) -> Count:
        """Writes some answers, which begin at the same time, until the first one ends: so long the batch is full."""
        count, begun, seats = Count(), self._now, list[Any]()
        rows = Rows(len(answers), max(len(answer.ids) for answer in answers) + MOST + 2, MOST)
        for slot, answer in enumerate(answers):
            rows.open(slot, answer.ids[: answer.prompt + 1], Pages(_pool()), len(answer.ids))
            rows.prompt_len[slot] = answer.prompt
            self._number += 1
            seats.append(SimpleNamespace(slot=slot, request=SimpleNamespace(arrival=self._number), answer=answer))
        view = RowView(rows, tuple(range(len(answers))))
        self.drafter.admit(view)
        self.pacer.admit(view)
        shadows = self._shadows(rows)
        self._repeats = repeats_of(rows, self._asking)
        for seat in seats if self.drafter.wants_successors else ():
            self.drafter.recycle(seat.slot, _successors(seat.answer, slice(0, seat.answer.prompt)))
        self._late = True
        while all(int(rows.committed_len[seat.slot]) < len(seat.answer.ids) for seat in seats):
            count += self._step(view, seats, shadows)
        self.drafter.retire(view)
        self.pacer.retire(view)
        count.seconds, count.plain = self._now - begun, count.tokens / len(answers)
        return count

    def _shadows(self, rows: Rows) -> Shadows | None:
        if not isinstance(self._asking, WatchedAsking):
            return None
        return Shadows(rows, self.drafter, self.pacer, MOST - 1, None, self._asking.foretold)

    def _step(self, view: RowView, seats: list[Any], shadows: Shadows | None) -> Count:
        rows, count = view.rows, len(seats)
        numbers = tuple(seat.request.arrival for seat in seats)
        lengths = view.column(rows.committed_len)
        rows.draft_len[list(view.slots)] = 0
        unread = self._unread(view, lengths)
        asked = self._asking is None or self._asking.asks(numbers)
        read = unread - self._draft(view, seats) if asked else 0
        drafted = view.column(rows.draft_len)
        nodes = sum(drafted)
        tokens = self._ran_with(count + nodes)
        fresh = tokens not in self._captured
        self._captured.add(tokens)
        timed = self._device.seconds(tokens if nodes else count) * self._noise.lognormvariate(0, 0.01)
        # Where nothing waits, a plain step is launched while the one before runs.
        waited = (asked and self._asking is not None) or nodes
        self._now += timed + (self._device.host + self._device.read * read if waited else 0.0)
        load = StepLoad(full_tokens=tokens if nodes else count, full_kv=sum(lengths) + nodes,
                        pairs=int(np.dot(np.array(drafted) + 1, lengths)))  # fmt: skip
        if not fresh:
            self.costs.observe(load, timed)
        outcomes = [
            self._outcome(rows, seat, length, own) for seat, length, own in zip(seats, lengths, drafted, strict=True)
        ]
        self.pacer.observe(view, outcomes)
        for outcome, length in zip(outcomes, lengths, strict=True):
            rows.commit(outcome.slot, outcome.tokens, length + outcome.accepted)
        self.drafter.absorb(view, outcomes)
        if self._asking:
            self._asking.learn(_launched(self._now, fresh, asked, outcomes, seats, self._late))
            if shadows and self._repeats and self._asking.resting:
                self._repeats.step(seats)
                shadows.step(seats, self._device.spare)
                self._now += max(0.0, shadows._took - self._device.spare)
        self._late = False
        written = sum(len(outcome.tokens) for outcome in outcomes)
        return Count(written, 1, nodes, not asked, tokens if asked else 0, fresh)

    def _draft(self, view: RowView, seats: list[Any]) -> int:
        """Puts drafts into the rows; how many of their tokens are still unread."""
        rows, lengths = view.rows, view.column(view.rows.committed_len)
        room = [min(MOST, len(seat.answer.ids) - length - 1) for seat, length in zip(seats, lengths, strict=True)]
        decided = self.pacer.decide(view, room)
        draft = self.drafter.plan(view, decided.room)
        for row, slot in enumerate(view.slots):
            own = slice(draft.offsets[row], draft.offsets[row + 1])
            if own.stop > own.start:
                rows.put_draft(
                    slot, *(part[own] for part in (draft.tokens, draft.parents, draft.confidence, draft.source))
                )
        kept = [min(most, MOST - 1, left) for most, left in zip(self.pacer.trim(view), room, strict=True)]
        rows.draft_len[list(view.slots)] = torch.tensor(kept)
        return self._unread(view, lengths)

    def _unread(self, view: RowView, lengths: Sequence[int]) -> int:
        late = late_of(self.drafter)
        if late is None:
            return 0
        return sum(length - late.readers[slot].position for slot, length in zip(view.slots, lengths, strict=True))

    def _outcome(self, rows: Rows, seat: Any, length: int, drafted: int) -> Outcome:
        """What the step wrote of a row."""
        answer, slot, path = seat.answer, seat.slot, list[int]()
        pairs = zip(
            rows.draft_parents[slot].tolist(), rows.tokens[slot, length : length + drafted].tolist(), strict=False
        )
        nodes = {pair: node for node, pair in enumerate(pairs)}
        for token in answer.ids[length:-1]:
            node = nodes.get((path[-1] if path else -1, token))
            if node is None:
                break
            path.append(node)
        known, successors = slice(length - 1, length + len(path)), None
        if self.drafter.wants_successors:
            successors = _successors(answer, known)
        written = answer.ids[length : length + len(path) + 1]
        return Outcome(slot, drafted, len(path), written, path=path, successors=successors)

    def _ran_with(self, tokens: int) -> int:
        """Of a verification, as the engine says it."""
        return min(node_bucket(tokens), MOST) if self._device.rows == 1 else node_bucket(tokens)


def _pool() -> PagePool:
    return PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)


def _successors(answer: Answer, read: slice) -> Successors:
    known = (torch.from_numpy(part[read]) for part in (answer.successors, answer.chances))
    return Successors(torch.tensor(answer.ids[read]), *known)


def _launched(
    now: float, fresh: bool, asked: bool, outcomes: Sequence[Outcome], seats: Sequence[Any], late: bool
) -> Any:  # fmt: skip
    return SimpleNamespace(
        drafts=False, verifies=True, late=late, timed=[SimpleNamespace(end=Mark(now))],
        ran=SimpleNamespace(fresh=fresh), seats=tuple(seats), asked=asked, unread=frozenset(),
        letter=SimpleNamespace(counts=np.array([len(outcome.tokens) for outcome in outcomes])),
    )  # fmt: skip

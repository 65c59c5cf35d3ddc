"""Priced blocks on a made-up device: what steps take and what is accepted follow laws, a step ahead of the host."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.engine.device.block_ahead import AheadBlocks
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.launch import WIDTHS
from glimpse.pacing.block_ways import bare_load, masked_load
from glimpse.pacing.costs import ON_GPU, StepCosts
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import PaceContext

SIZE, MOST, TOKENS = 6, 10, 96
SURENESS = np.array([1, 0.8, 0.7, 0.6, 0.5, 0.5])
"""Of the places of a block, over the first one's."""


class At:
    """A mark."""

    def __init__(self, time):
        self.time = time

    def since(self, earlier):
        return self.time - earlier.time


def queries(drafted):
    """Tokens a row of a step for such drafts."""
    return next(width for width in WIDTHS if width > drafted)


@dataclass
class Replay:
    """Rows that write texts one after another on a device whose plain step takes `plain` seconds; in plain steps, a
    query token of a row adds `token`, masks `riding` and each of them `mask`."""

    rows: int
    plain: float
    riding: float
    mask: float
    token: float = 0.02
    right: float = 0.8
    """Chance of a drafted token over its confidence."""
    weight_bytes: int = 270_000_000
    paced: type[MarginalPacer] = MarginalPacer
    seed: int = 0
    now: float = 0.0
    kinds: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.draw, self.costs = (
            np.random.default_rng(self.seed),
            StepCosts(self.weight_bytes, 23000, 4e12, shares=ON_GPU),
        )
        self.pacer = self.paced.build(PaceContext(self.costs, None, True, lambda length: length))
        self.rules, self.late = [], False
        head = SimpleNamespace(size=SIZE)
        blocks = SimpleNamespace(
            head=head, ahead=SIZE, most=MOST, rule=lambda rules: self.rules.__setitem__(slice(None), rules)
        )
        parts = SimpleNamespace(costs=self.costs, pacer=self.pacer)
        self.pace = AheadBlocks(blocks, parts, queries, "auto")
        self.flying = deque()

    def text(self):
        """Every row writes one; returns the speed over plain decoding."""
        pool, rows = PagePool(CacheShape(1, 1, 4), 64 * self.rows, 16, torch.float32), Rows(self.rows, 1024, 64)
        for slot in range(self.rows):
            rows.open(slot, [5] * 500, Sequence(pool, expected=900), 900)
        view, begun = RowView(rows, tuple(range(self.rows))), self.now
        self.pacer.admit(view)
        self.standing, written = [None] * self.rows, np.zeros(self.rows, int)
        while written.min() < TOKENS:
            written += 1 + np.array(self.launch(view))
            while len(self.flying) > 1:
                self.settle(view)
        while self.flying:
            self.settle(view)
        for slot in view.slots:
            self.pace.leave(slot)
        self.pacer.retire(view)
        self.late = True
        return written.sum() * self.plain / self.rows / (self.now - begun)

    def launch(self, view):
        """One step; how many drafts of each row are accepted."""
        move, lengths = self.pace.next(view), view.column(view.rows.committed_len)
        wide, masks = queries(move.drafted), isinstance(move, BlockMove)
        groups = 0 if not masks else 1 if move.groups == 1 else min(wide, MOST)
        extra = self.token * (wide - 1) + masks * self.riding + self.mask * groups * SIZE
        took = self.plain * (1 + extra) * self.draw.normal(1, 0.01)
        load = masked_load(lengths, wide, groups, groups * SIZE) if masks else bare_load(lengths, wide)
        self.kinds[wide, groups] += 1
        self.now += took
        drafted, accepted, made = zip(*(self.row(row, wide, groups) for row in range(self.rows)), strict=True)
        seats = [SimpleNamespace(request=SimpleNamespace(arrival=slot)) for slot in view.slots]
        self.flying.append(
            SimpleNamespace(
                seats=seats, letter=SimpleNamespace(counts=np.array(accepted) + 1), drafts=False, load=load,
                verifies=True, late=self.late,
                ran=SimpleNamespace(fresh=self.kinds[wide, groups] == 1), asked=self.pace.asking.asked, took=took,
                timed=[SimpleNamespace(end=At(self.now))], drafted=drafted, accepted=accepted, made=made,
            )
        )  # fmt: skip
        self.late = False
        return accepted

    def row(self, row, wide, groups):
        """What one row had drafted, what of it is accepted, and its next block."""
        said, count = self.standing[row] or (np.zeros(0), 0)
        drafted = min(count, wide - 1)
        accepted = int(np.cumprod(self.draw.random(drafted) < self.right * said[:drafted]).sum())
        made = None
        if accepted < groups:
            made = self.draw.beta(1.2, 1.2, SIZE) * SURENESS
        self.standing[row] = None if made is None else (made, self.rules[row].length(made))
        return drafted, accepted, made

    def settle(self, view):
        """The host reads what was launched first."""
        launched = self.flying.popleft()
        facts = zip(view.slots, launched.drafted, launched.accepted, strict=True)
        outcomes = [Outcome(slot, drafted, kept, [1] * kept + [2]) for slot, drafted, kept in facts]
        self.pacer.observe(view, outcomes)
        for own in outcomes:
            view.rows.commit(own.slot, own.tokens, int(view.rows.committed_len[own.slot]) + own.accepted)
        slots = [slot for slot in view.slots if launched.made[slot] is not None]
        if slots:
            said = torch.tensor(np.array([launched.made[slot] for slot in slots]), dtype=torch.float32)
            self.pace.heard(RowView(view.rows, tuple(slots)), torch.ones(len(slots), SIZE, dtype=torch.long), said)
        if not launched.ran.fresh:
            self.costs.observe(launched.load, launched.took)
        self.pace.asking.learn(launched)

"""What a batch does next where every row goes at its own pace, a step behind what the device has done.

ASPIRE's unsynchronised batch: the pacer's word on a row is that row's, and nobody else's. Rows that happen to want the
same make a step of one kind, which is cheaper.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from glimpse.attention.triton.mixed import Want
from glimpse.cache.rows import RowView
from glimpse.engine.device.pace import Move
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action, Decisions, Pacer

LEARNS = {Want.PLAIN: Learn.NOTHING, Want.ADD: Learn.ADD, Want.ANEW: Learn.ANEW}


@dataclass(frozen=True, slots=True)
class Mixture:
    """A step in which rows do different things."""

    wants: tuple[Want, ...]
    drafted: tuple[int, ...]
    """The longest draft that each row may have."""


@dataclass(slots=True)
class _Launched:
    """What a row was given to do."""

    pending: int = 0
    """Draft steps since its last verification."""
    stale: bool = False
    """Steps were run that added nothing to its importance."""


class OwnPace:
    """Asks the pacer for every row, and lets each do as it is told.

    Not all that was launched is known when it is asked: the entropy of a draft not yet reported is that of the round
    before. That costs some acceptance, never exactness: coupled acceptance verifies whatever was drafted.
    """

    def __init__(self, pacer: Pacer, most: int) -> None:
        """`most`: the longest draft."""
        self._pacer, self._most = pacer, most
        self._rows: defaultdict[int, _Launched] = defaultdict(_Launched)
        self._holds: tuple[tuple[int, ...], int] = (), 0
        """Rows that are to step plainly, and for how many more steps."""
        self._promised: tuple[tuple[int, ...], Decisions] | None = None
        """Rows that are to draft a burst as soon as they have recall sets that know of all that was written."""

    def next(self, view: RowView, *, plain: bool = False) -> Move | Mixture:
        """What to launch now for these rows; `plain`: whatever they want, a plain step, which drops their drafts."""
        rows = [self._rows[slot] for slot in view.slots]
        promised, self._promised = self._promised, None
        if plain or self._foretold(view):
            return _each(rows, [Want.PLAIN] * len(rows))
        if promised and promised[0] == view.slots:
            return _burst(rows, promised[1])
        decisions = self._ask(view, rows)
        if decisions.burst and not any(row.stale and not row.pending for row in rows):
            return _burst(rows, decisions)
        if decisions.burst and not any(row.pending for row in rows):
            # The pacer is not asked again: it may take its draft for tried.
            self._promised = view.slots, decisions
            return _each(rows, [Want.ANEW if row.stale else Want.ADD for row in rows])
        wants = [_want(*of) for of in zip(rows, decisions.actions, decisions.room, strict=True)]
        self._holds = view.slots, decisions.holds if all(want is Want.PLAIN for want in wants) else 0
        return _each(rows, wants)

    def leave(self, slot: int) -> None:
        """Forgets a row."""
        self._rows.pop(slot, None)

    @property
    def between(self) -> bool:
        """Whether no row has a draft under way, or is to begin one."""
        return self._promised is None and not any(row.pending for row in self._rows.values())

    def resume(self, view: RowView) -> None:
        """These rows come from steps that it knows nothing of, and that added nothing to their importance."""
        self._holds = (), 0
        for slot in view.slots:
            self._rows[slot].stale = True

    def _foretold(self, view: RowView) -> bool:
        slots, left = self._holds
        self._holds = slots, left - 1
        return left > 0 and slots == view.slots

    def _ask(self, view: RowView, rows: list[_Launched]) -> Decisions:
        slots, pending = list(view.slots), torch.tensor([row.pending for row in rows])
        left = (view.rows.limit - view.rows.committed_len)[slots] - 1  # the target adds a token of its own
        view.rows.draft_len[slots] = pending
        return self._pacer.decide(view, (left.clamp(max=self._most) - pending).clamp(min=0).tolist())


def _burst(rows: list[_Launched], decisions: Decisions) -> Move:
    """Draft steps of all rows in one go; the device stops at each row's end."""
    longest = max(row.pending for row in rows) + decisions.burst
    for row in rows:
        row.pending = 0 if decisions.closes else row.pending + decisions.burst
    if decisions.closes:
        return Move(decisions.burst, verifies=True, drafted=longest, learn=Learn.ADD)
    return Move(decisions.burst, verifies=False)


def _each(rows: list[_Launched], wants: list[Want]) -> Move | Mixture:
    """One step in which every row does what it wants."""
    step = _step(wants, [row.pending for row in rows])
    for row, want in zip(rows, wants, strict=True):
        row.pending = row.pending + 1 if want is Want.DRAFT else 0
        if want is not Want.DRAFT:
            row.stale = want is Want.PLAIN
    return step


def _want(row: _Launched, action: Action, room: int) -> Want:
    learns = Want.ANEW if row.stale else Want.ADD
    if action is Action.DRAFT and room > 0:
        # A first draft needs a set that knows of all that was written.
        return Want.DRAFT if row.pending or not row.stale else learns
    return learns if row.pending or action is Action.VERIFY else Want.PLAIN


def _step(wants: list[Want], pending: list[int]) -> Move | Mixture:
    """One move for all where they want the same of drafts as long."""
    first = wants[0]
    if any(want is not first for want in wants):
        return Mixture(tuple(wants), tuple(pending))
    if first is Want.DRAFT:
        return Move(1, verifies=False)
    if first is Want.PLAIN:
        return Move(0, verifies=True)
    if min(pending) < max(pending):
        return Mixture(tuple(wants), tuple(pending))
    return Move(0, verifies=True, drafted=pending[0], learn=LEARNS[first])

"""What a batch in step does next: whole rounds of a length known beforehand, a step behind what the device has done."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.cache.rows import RowView
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action, Pacer


@dataclass(frozen=True, slots=True)
class Move:
    """Draft steps of all rows, then a verification or none."""

    drafts: int
    verifies: bool
    drafted: int = 0
    """The longest draft that the verification meets."""
    learn: Learn = Learn.NOTHING


class Pace:
    """Asks the pacer for every row and does what at least half of them want to; the device stops at each row's end."""

    def __init__(self, pacer: Pacer, most: int, *, drafts: bool) -> None:
        """`most`: the longest draft; `drafts`: on the device. Without, nobody is asked."""
        self._pacer, self._most, self._drafts = pacer, most, drafts
        self._lengths: set[int] = set()
        self._stale = False
        """Steps were run that added nothing to the importance."""

    def next(self, view: RowView, *, plain: bool = False) -> Move:
        """What to launch now for these rows; `plain`: whatever they want, a plain step."""
        move = self._choose(view) if self._drafts and not plain else Move(0, verifies=True)
        self._stale = move.learn is Learn.NOTHING
        return move

    def leave(self, slot: int) -> None:
        """Keeps nothing of a row."""

    def _choose(self, view: RowView) -> Move:
        view.rows.draft_len[list(view.slots)] = 0
        decisions = self._pacer.decide(view, self._room(view))
        wanted = [
            left for left, action in zip(decisions.room, decisions.actions, strict=True) if action is Action.DRAFT
        ]
        if 2 * len(wanted) < len(view) or max(wanted, default=0) < 1:
            return self._verify(decisions.actions)
        if self._stale:
            return Move(0, verifies=True, learn=Learn.ANEW)
        length = self._length(max(wanted))
        return Move(length, verifies=True, drafted=length, learn=Learn.ADD)

    def _length(self, wanted: int) -> int:
        """The length of a round: one that was launched before, if it is enough.

        Where rows come to their ends, a graph of its own costs more than a few drafts that no row has room for.
        """
        length = min((length for length in self._lengths if length >= wanted), default=wanted)
        self._lengths.add(length)
        return length

    def _verify(self, actions: list[Action]) -> Move:
        if 2 * actions.count(Action.VERIFY) <= len(actions):
            return Move(0, verifies=True)
        return Move(0, verifies=True, learn=Learn.ANEW if self._stale else Learn.ADD)

    def _room(self, view: RowView) -> list[int]:
        """Draft tokens that could still be of use to each row: the target adds one of its own."""
        rows = view.rows
        left = (rows.limit - rows.committed_len)[list(view.slots)] - 1
        room: list[int] = left.clamp(0, self._most).tolist()
        return room

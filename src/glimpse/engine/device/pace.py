"""What a batch does next: the rows' wishes made one, a step behind what the device has done."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.cache.rows import RowView
from glimpse.engine.device.settings import Learn
from glimpse.pacing.pacer import Action, Pacer


@dataclass(frozen=True, slots=True)
class Move:
    """Draft steps, then a verification or none."""

    drafts: int
    verifies: bool
    drafted: int = 0
    """The longest draft that the verification meets."""
    learn: Learn = Learn.NOTHING


class Pace:
    """Asks the pacer for every row and does what at least half of them want to.

    Not all that was launched is known when it is asked: for drafts not yet reported, the rows' entropies are those of
    the round before. That costs some acceptance, never exactness: coupled acceptance verifies whatever was drafted.
    """

    def __init__(self, pacer: Pacer, most: int, *, foretells: bool, drafts: bool) -> None:
        """`most`: the longest draft; `foretells`: lengths are known before drafting; `drafts`: on the device."""
        self._pacer, self._most, self._foretells, self._drafts = pacer, most, foretells, drafts
        self.pending = 0
        """Draft steps launched since the last verification."""
        self._lengths: set[int] = set()
        self._stale = False
        """Steps were run that added nothing to the importance."""

    def next(self, view: RowView, *, plain: bool = False) -> Move:
        """What to launch now for these rows; `plain`: whatever they want, a plain step, which drops their drafts."""
        move = Move(0, verifies=True) if plain else self._choose(view)
        self.pending = 0 if move.verifies else self.pending + move.drafts
        if move.verifies:
            self._stale = move.learn is Learn.NOTHING
        return move

    def _choose(self, view: RowView) -> Move:
        room = self._room(view)
        self._expect(view)
        decisions = self._pacer.decide(view, room)
        wanted = [
            left for left, action in zip(decisions.room, decisions.actions, strict=True) if action is Action.DRAFT
        ]
        if 2 * len(wanted) < len(view) or max(wanted, default=0) < 1 or not self._drafts:
            return self._verify(decisions.actions)
        if not self.pending and self._stale:
            return Move(0, verifies=True, learn=Learn.ANEW)
        if self._foretells:
            length = self._length(max(wanted))
            return Move(length, verifies=True, drafted=length, learn=Learn.ADD)
        return Move(1, verifies=False)

    def _length(self, wanted: int) -> int:
        """The length of a round: one that was launched before, if it is enough.

        Where rows come to their ends, a graph of its own costs more than a few drafts that no row has room for.
        """
        length = min((length for length in self._lengths if length >= wanted), default=wanted)
        self._lengths.add(length)
        return length

    def _verify(self, actions: list[Action]) -> Move:
        learns = self.pending or 2 * actions.count(Action.VERIFY) > len(actions)
        if not (self._drafts and learns):
            return Move(0, verifies=True, drafted=self.pending)
        return Move(0, verifies=True, drafted=self.pending, learn=Learn.ANEW if self._stale else Learn.ADD)

    def _room(self, view: RowView) -> list[int]:
        """Draft tokens that could still be of use to each row, beyond those pending: the target adds one of its own."""
        rows = view.rows
        left = (rows.limit - rows.committed_len)[list(view.slots)] - 1
        return [max(0, most - self.pending) for most in left.clamp(max=self._most).tolist()]

    def _expect(self, view: RowView) -> None:
        """Lets the pacer see the drafts that are pending."""
        view.rows.draft_len[list(view.slots)] = self.pending

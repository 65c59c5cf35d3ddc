"""Who drafts for a GPU's batch under `auto`: the host, or the batch for itself, in step.

A step has room for one kind of draft. Drafts from the host (trees of what was read or recycled) suit few rows of text
that repeats itself; drafts by sparse forwards suit full batches of long contexts, and then all rows together
(`fleet`: on a GPU rows that draft while others verify cost more than they save, docs/pacing.md). So the batch as a
whole goes one way or the other, by what each is expected to bring over plain decoding: host drafts by what they were
measured to bring, end to end; its own by what they are reckoned to bring on the device, less by what was missing of
that when they were made. The reckoning knows nothing of what a round takes the host, or that new rows wait for its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glimpse.cache.rows import RowView
from glimpse.pacing.fleet import FleetPacer
from glimpse.speculation import Choice

CLEAR = 1.05
"""By how much the other way must look better."""
OWN = 1.1
"""Over plain decoding, what is expected of drafts of the batch's own where they begin."""
RENEWED = 16
"""Looks without drafts of its own over which what was missing of them is forgotten."""
HELD, LONGEST, OTHERS = 8, 128, 512
"""Steps of a batch of about one size until it is looked at anew; twice as many each time that changes nothing, at
most, the last where the batch does not draft for itself. A look takes the host a quarter of a millisecond, and with
prices that have to be fitted for it a whole one."""
GUESS = 1.2
"""Speed of host drafts over plain decoding before any was measured."""
TRIAL = 1024
"""Steps that the batch drafts for itself until the host is asked again all the same, as text that has come to repeat
itself shows in host drafts alone; twice as many each time that this changes nothing."""
PLAIN = "none"


@dataclass(frozen=True, slots=True)
class Ways:
    """What the ways to draft are called where choices are told of."""

    host: str
    itself: str
    note: str
    """Why there are no others."""


@dataclass(slots=True)
class _Looks:
    """When a size of batch is looked at next."""

    left: int = 0
    """Its steps until then."""
    held: int = HELD // 2

    def hold(self, most: int) -> None:
        """It was looked at: twice as long as the last time it is not, at most so long."""
        self.held = min(2 * self.held, most)
        self.left = self.held


class InStep:
    """Chooses for the batch, and says so of every row."""

    def __init__(self, fleet: FleetPacer, ways: Ways) -> None:
        """`fleet` paces the batch that drafts for itself."""
        self.fleet, self._ways = fleet, ways
        self.chosen = False
        """Whether the batch drafts for itself."""
        self._itself, self._host, self._plain = 1.0, GUESS, 0.0
        """Speeds that were expected at the last look; seconds of a row's share of a plain step, once told of since."""
        self._held = 1.0
        """Of what is reckoned of the batch's own drafts, the part that was measured."""
        self._pays = True
        """Whether host drafts looked faster than plain decoding then."""
        self._looks: defaultdict[int, _Looks] = defaultdict(_Looks)
        """By size of batch, within a factor of two."""
        self._since, self._trial = 0, TRIAL
        """Steps that the batch has drafted for itself, and after how many the host is asked."""
        self._told = set[int]()
        """Slots whose requests have been told of a choice."""

    def waits(self, slots: Sequence[int]) -> bool:
        """Whether there is nothing to look at before the next step of these rows: then `look` need not be called.
        Called once a step."""
        looks = self._looks[len(slots).bit_length()]
        looks.left -= 1
        self._since += self.chosen
        return looks.left > 0 and self._told.issuperset(slots)

    def look(
        self, rows: RowView, brought: Callable[[], float | None], brings: Callable[[], float | None]
    ) -> dict[int, Choice]:
        """Called where `waits` says no. `brought`: the speed of host drafts over plain decoding, by what was
        measured, where anything was; `brings`: the same of the batch's own. Returns what there is to say of rows that
        are new or go another way."""
        looks = self._looks[len(rows).bit_length()]
        if looks.left > 0:
            return self.untold(rows)
        was, measured = self.way, brought()
        self._itself, self._host = self._expected(rows, brings), GUESS if measured is None else measured
        self._plain = 0.0
        self._pays = self._host > (1.0 if not self._pays else 1 / CLEAR)
        if not self._choose():
            self._looks.clear()  # what was held was so for the other way
            looks = self._looks[len(rows).bit_length()]
        looks.hold(LONGEST if self.chosen else OTHERS)
        if self.way != was:
            self._told.clear()
        return self.untold(rows)

    def untold(self, rows: RowView) -> dict[int, Choice]:
        """What there is to say of rows that nothing has been said of."""
        new = [slot for slot in rows.slots if slot not in self._told]
        if not new:
            return {}
        self._told.update(new)
        own = rows.pick([slot in new for slot in rows.slots])
        speeds = {PLAIN: 1.0, self._ways.host: self._host, self._ways.itself: self._itself}
        self._plain = self._plain or self.fleet.plain_seconds(rows)
        prompts = own.column(rows.rows.prompt_len)
        return {
            slot: Choice(length - prompt, self.way, speeds, self._plain, self._ways.note)
            for slot, length, prompt in zip(own.slots, own.column(rows.rows.committed_len), prompts, strict=True)
        }

    def leave(self, rows: RowView) -> None:
        """Their requests have left."""
        self._told.difference_update(rows.slots)

    @property
    def way(self) -> str:
        """The name of who drafts, or of plain decoding where the engine mostly rests."""
        if self.chosen:
            return self._ways.itself
        return self._ways.host if self._pays else PLAIN

    def _expected(self, rows: RowView, brings: Callable[[], float | None]) -> float:
        """The speed of the batch's own drafts over plain decoding."""
        reckoned, measured = self.fleet.gain(rows), brings() if self.chosen else None
        if measured is not None:
            self._held += (min(1.0, measured / reckoned) - self._held) / 2
        elif not self.chosen:
            self._held += (1 - self._held) / RENEWED
        return reckoned * self._held

    def _choose(self) -> bool:
        """Whether the batch goes on as it did."""
        was, host = self.chosen, max(1.0, self._host)
        if was and self._since >= self._trial:
            self.chosen, self._trial, self._since = False, 2 * self._trial, 0
            return False
        self.chosen = self._itself >= host if was else self._itself > max(OWN, CLEAR * host)
        if self.chosen is not was:
            self._since = 0
        elif not was:
            self._trial = TRIAL
        return self.chosen is was

"""Who drafts for a GPU's batch under `auto`: the host, for each row, or the batch for itself, in step.

A step has room for one kind of draft. Drafts from the host (trees of what was read or recycled) suit few rows of text
that repeats itself; drafts by sparse forwards suit full batches of long contexts, and then all rows together
(`fleet`: on a GPU rows that draft while others verify cost more than they save, docs/pacing.md). So the batch as a
whole goes one way or the other, by what each is expected to bring over plain decoding.
"""

from __future__ import annotations

from typing import Protocol

from glimpse.cache.rows import RowView
from glimpse.pacing.fleet import FleetPacer
from glimpse.speculation import Choice

CLEAR = 1.05
"""By how much the other way must look better."""
HELD, LONGEST = 8, 128
"""Steps of the batch until it is looked at anew; twice as many each time that changes nothing, at most."""
WEIGHT = 0.5
"""Of the newest comparison of what host drafts brought with what they promised."""
LEAST = 0.3
"""Of a promise, that much is always believed: text that repeats itself has to be noticed."""


class HostSide(Protocol):
    """What knows of the host's drafts."""

    def promised(self, rows: RowView) -> float:
        """What they promise these rows over plain decoding, in the mean."""

    def watch(self, rows: RowView) -> None:
        """Keeps itself informed of rows that nobody asks it for."""


class InStep:
    """Chooses for the batch; what it chose is told of in `Choice`s, with its own way called `name`."""

    def __init__(self, fleet: FleetPacer, host: HostSide, name: str, note: str) -> None:
        """`fleet` paces the batch that drafts for itself; `note`: of the choices."""
        self.fleet, self._host, self._name, self._note = fleet, host, name, note
        self.chosen = False
        """Whether the batch drafts for itself."""
        self._kept = 1.0
        """What host drafts have brought of what they promised: the device waits for them."""
        self._left, self._held, self._size = 0, HELD, 0

    def look(self, rows: RowView, brought: float | None) -> dict[int, Choice]:
        """Called before a step of these rows. `brought`: measured speed of host drafts over plain decoding, where there
        is one. Returns what there is to say of the rows where the batch goes another way."""
        size = len(rows).bit_length()
        self._left -= 1
        if self._left > 0 and size == self._size:
            return {}
        was = self.chosen
        if was:
            self._host.watch(rows)
        promised = self._host.promised(rows)
        if brought is not None and not was:
            share = min(max(brought / promised, LEAST), 1.0)
            self._kept += WEIGHT * (share - self._kept)
        itself, host = self.fleet.gain(rows), max(1.0, self._kept * promised)
        self.chosen = itself * CLEAR >= host if was else itself > CLEAR * host
        same = self.chosen is was and size == self._size
        self._held, self._size = min(2 * self._held, LONGEST) if same else HELD, size
        self._left = self._held
        return self._told(rows, itself, host) if self.chosen is not was else {}

    def joined(self, rows: RowView) -> dict[int, Choice]:
        """What there is to say of rows that have come while the batch drafts for itself."""
        return self._told(rows, self.fleet.gain(rows), 1.0) if self.chosen else {}

    def _told(self, rows: RowView, itself: float, host: float) -> dict[int, Choice]:
        name = self._name if self.chosen else "none"
        speeds, plain = {"none": 1.0, "host drafts": host, self._name: itself}, self.fleet.plain_seconds(rows)
        prompts = rows.column(rows.rows.prompt_len)
        return {
            slot: Choice(length - prompt, name, speeds, plain, self._note)
            for slot, length, prompt in zip(rows.slots, rows.column(rows.rows.committed_len), prompts, strict=True)
        }

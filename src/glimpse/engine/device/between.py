"""What a step took, from the end of the one before to its own, and whether that says what such steps take.

Where rows come and go the host has other things to do: texts are read, what has ended is put away, and threads that
answer want the interpreter. Steps beside that take three and four times as long, and say nothing of a kind of step but
when it came. That matters where drafts are asked for most of the time: the few plain steps there are come just then.
"""

from __future__ import annotations

from glimpse.engine.device.mail import Mark
from glimpse.engine.device.settle import Launched

SETTLED = 2
"""Steps of the same rows before one that is told."""
PATIENCE = 64
"""Steps after which one is told of in any rows: where they never stay so long, that is what steps take."""


class Between:
    """Told of every step that has been read, in turn."""

    def __init__(self) -> None:
        self.tells = False
        """Whether what the last step took says what others of its kind take."""
        self._end: Mark | None = None
        self._rows = tuple[int, ...]()
        self._drafts = self._asked = False
        """Whether the last step was of a batch that drafts for itself, and whether it was asked for."""
        self._same = self._silent = 0
        """Steps since the rows changed, and since one told."""

    def seconds(self, launched: Launched, rows: tuple[int, ...], *, wrote: bool) -> float | None:
        """What a step of these rows took, which `wrote` something (one that did not was launched ahead of their ends).
        None where nobody knows: after the other way to draft, behind a prompt, where a graph was captured."""
        end, before = launched.timed[-1].end, self._end
        # A plain step behind one that was asked for could not be launched ahead of its end.
        alike, ahead = launched.drafts is self._drafts, launched.asked >= self._asked
        self._same = self._same + 1 if rows == self._rows else 0
        self._end, self._rows, self._drafts, self._asked = end, rows, launched.drafts, launched.asked
        known = alike and wrote and not launched.late and not launched.ran.fresh
        self.tells = known and ahead and (self._same >= SETTLED or self._silent >= PATIENCE)
        self._silent = 0 if self.tells else self._silent + 1
        return end.since(before) if before is not None and known else None

"""When a batch stops asking the host for drafts and drafts for itself, and back (`pacing.in_step`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glimpse.cache.rows import Rows, RowView
from glimpse.engine.device.asking import Asking, numbers_of
from glimpse.engine.device.host_drafts import HostDrafts
from glimpse.engine.device.own_pace import OwnPace
from glimpse.engine.device.paces import AnyPace
from glimpse.engine.device.seats import Seat
from glimpse.engine.parts import Parts
from glimpse.pacing.in_step import InStep

if TYPE_CHECKING:
    from glimpse.engine.device.host_trees import HostTrees


class Turns:
    """Two ways to draft over the same rows. The way changes between rounds, when nothing is in flight.

    Where the batch drafts for itself, its pace is `pace`; else the host is asked when `asking` says so.
    """

    def __init__(
        self, rows: Rows, in_step: InStep, asking: Asking, pace: OwnPace, drafts: HostDrafts | HostTrees
    ) -> None:
        self._rows, self._in_step, self._asking, self._pace, self._drafts = rows, in_step, asking, pace, drafts
        self.own = False
        """Whether the batch drafts for itself now."""

    @property
    def ending(self) -> bool:
        """Whether drafts under way have to be dropped first: the other way is to come."""
        return self.own and not self._in_step.chosen

    @property
    def due(self) -> bool:
        """Whether the way changes before the next step."""
        return self._in_step.chosen is not self.own and (not self.own or self._pace.between)

    def look(self, seats: list[Seat]) -> None:
        """A step of these rows was launched: which way is better from the next one on, of which new requests are told.
        It takes the host up to a millisecond, as prices are fitted for it, and nobody waits for it here."""
        asking = self._asking
        if self._in_step.waits([seat.slot for seat in seats]):
            return
        said = self._in_step.look(
            self._view(seats), lambda: asking.speed(numbers_of(seats)), lambda: asking.own_speed(len(seats))
        )
        for seat in seats:
            if seat.slot in said:
                seat.request.speculation.choices.append(said[seat.slot])

    def change(self, seats: list[Seat]) -> None:
        """Goes the other way; all that was launched has been read."""
        self.own = not self.own
        if self.own:
            self._drafts.skip(seats)
            self._pace.resume(self._view(seats))
        else:
            self._rows.draft_len[[seat.slot for seat in seats]] = 0
            self._asking.wake(numbers_of(seats))

    def _view(self, seats: list[Seat]) -> RowView:
        return RowView(self._rows, tuple(seat.slot for seat in seats))


def turns_of(
    parts: Parts, asking: Asking | None, pace: AnyPace, drafts: HostDrafts | HostTrees | None
) -> Turns | None:  # fmt: skip
    """Of parts whose batch may draft for itself; None for others."""
    if parts.pacer.in_step is None or asking is None or drafts is None or not isinstance(pace, OwnPace):
        return None
    return Turns(parts.rows, parts.pacer.in_step, asking, pace, drafts)

"""The host's part in drafting: whether it is asked, what it drafts, and what it makes ready while the device works."""

from __future__ import annotations

from glimpse.cache.rows import RowView
from glimpse.drafting.reader import late_of, read_on
from glimpse.engine.device.asking import numbers_of, unread_of
from glimpse.engine.device.block_ahead import AheadBlocks
from glimpse.engine.device.core import Core
from glimpse.engine.device.host_drafts import host_drafts
from glimpse.engine.device.paces import AnyPace
from glimpse.engine.device.prompt_topk import Hearing, prompt_topk, worth_hearing
from glimpse.engine.device.repeats import repeats_of
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.settle import Launched
from glimpse.engine.device.shadows import shadows_of
from glimpse.engine.device.steps import AnyMove
from glimpse.engine.device.turns import turns_of
from glimpse.engine.device.watched import asking_of
from glimpse.engine.parts import Parts
from glimpse.engine.request import Request


class HostSide:
    """Of one engine's rows; where the device makes all drafts, or there are none, it has nothing to do."""

    def __init__(self, parts: Parts, core: Core, pace: AnyPace) -> None:
        """`pace`: what says what rows do next where the host does not draft."""
        ahead = core.blocks is not None and core.blocks.ahead > 0
        self.waits = parts.drafter.drafts and not parts.drafter.needs_forward and not ahead
        """Whether the device may have to wait for drafts."""
        self._parts, self._pace = parts, pace
        # A pacer that foretells is told what to do: it drafts whatever that costs.
        asking = asking_of(parts) if self.waits and not parts.pacer.foretells else None
        self.asking = pace.asking if isinstance(pace, AheadBlocks) else asking
        self.drafts = host_drafts(parts, core) if self.waits else None
        self.turns = turns_of(parts, self.asking, pace, self.drafts)
        self.topk, self._late = prompt_topk(parts), late_of(parts.drafter)
        self._hearing = Hearing()
        self.shadows = shadows_of(parts, self.asking, core.rows.most, self.topk)
        self.repeats = repeats_of(parts.rows, self.asking) if self.shadows else None

    @property
    def own(self) -> bool:
        """Whether the rows' drafts, if any, are made on the device."""
        return self.drafts is None or (self.turns is not None and self.turns.own)

    @property
    def asked(self) -> bool:
        """Whether the step that is launched is one of those that are asked for."""
        return self.asking is not None and self.asking.asked and not (self.turns is not None and self.turns.own)

    @property
    def hosted(self) -> bool:
        """Whether the host may have drafted for the step that is launched."""
        return not self.own and (self.asking is None or self.asking.asked)

    @property
    def recalls(self) -> bool:
        """Whether rows go by what was important to their prompts."""
        return self.turns is None or self.turns.own

    def takes(self, request: Request) -> None:
        """A request has come: where somebody follows it as it is written, so it is with all."""
        if self.asking is not None:
            self.asking.fair = request.hear is not None

    def hears(self, seats: list[Seat], new: Seat) -> bool:
        """Whether the successors of a new request's prompt are worth their cost to all."""
        if self.turns is not None and self.turns.own:
            return False
        request = new.request
        seconds = self.topk.seconds(request.length) if self.topk else 0.0
        worth = worth_hearing(self.asking, numbers_of(seats), request.limit - request.length, seconds)
        return self._hearing.hears(worth=worth)

    @property
    def changes(self) -> bool:
        """Whether others draft from the next step on; then nothing may be in flight."""
        return self.turns is not None and self.turns.due

    def change(self, seats: list[Seat]) -> None:
        """They do: all that was launched has been read."""
        assert self.turns is not None
        self.turns.change(seats)

    def asks(self, seats: list[Seat], begun: bool) -> bool:
        """Whether it may draft for the next step of these rows, for which all steps before must have been read.
        `begun`: one of them has just been read, see `_begins`."""
        return not self.own and not self._begins(begun) and not (
            self.asking is not None and self.asking.rests(numbers_of(seats))
        )  # fmt: skip

    def next(self, seats: list[Seat], view: RowView, begun: bool, plain: bool) -> AnyMove:
        """What to launch now for these rows, which `view` has. `begun`: as for `asks`; `plain`: of no draft."""
        plain = plain or (self.turns is not None and self.turns.ending)
        if self.drafts is None or self.own:
            return self._pace.next(view, plain=plain)
        if self._begins(begun):
            if self.asking is not None:
                self.asking.skip()
            return self.drafts.skip(seats)
        if self.asking is not None and not self.asking.asks(numbers_of(seats)):
            return self.drafts.skip(seats)
        if self.topk:
            self.topk.tell(view.slots)
        return self.drafts.next(seats, plain=plain)

    def _begins(self, begun: bool) -> bool:
        """Whether the next step is a row's first and is plain for it, though others could have drafts: reading its text
        would keep the first token back, and can be done while the device writes that."""
        return begun and self._late is not None

    def unread(self, seats: list[Seat], view: RowView) -> frozenset[int]:
        """Requests that were not drafted for in the step that is launched, as their texts had not been read."""
        return unread_of(seats, view, self._late if self.asked else None)

    def launched(self, seats: list[Seat], begun: bool, waited: float) -> None:
        """A step of these rows was launched: what can be made ready now need not be waited for later. `waited`: seconds
        that the host waited for the last report."""
        if self.turns is not None:
            self.turns.look(seats)
        if self.own or self._late is None:
            return
        if self.asking is None or not self.asking.resting:
            if begun:
                read_on(self._late.readers, RowView(self._parts.rows, tuple(seat.slot for seat in seats)))
            return
        if self.repeats:
            self.repeats.step(seats)
        if self.shadows:
            self.shadows.step(seats, waited)

    def learn(self, launched: Launched) -> None:
        """A step has been read."""
        if self.asking is not None:
            self.asking.learn(launched)

    def landed(self) -> None:
        """Nothing is in flight."""
        if self.drafts is not None:
            self.drafts.landed()

    def leave(self, slot: int) -> None:
        """Another request will have the row."""
        if self.repeats:
            self.repeats.leave(slot)
        if self.shadows:
            self.shadows.leave(slot)

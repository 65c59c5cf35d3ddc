"""The running requests of one engine: taken into rows and pages, with all parts told, and out of them again."""

from __future__ import annotations

import time
from contextlib import ExitStack

from glimpse.cache.pool import OutOfPages
from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.request import Request
from glimpse.errors import NoRoom

_HEADROOM = 64
"""Tokens that a request must have room for beyond its text to be taken in, where not all that it may write is promised;
twice as many for each time that it was put back, so that it does not come and go at every step."""
_WORTH_WAITING = 512
"""Tokens more to share for which a request waits while another reads the same prompt."""


class Residents:
    """`running` are the requests by slot; several engines over the same parts each have their own."""

    def __init__(self, parts: Parts, options: EngineOptions, *, steps: int = 1) -> None:
        """`steps`: how many steps may write before the next chance to `grow`."""
        self._parts, self._options, self._steps = parts, options, steps
        self._reading: dict[int, int] = {}
        """Rows of which not all pages that others may share have been published, and the tokens that were verified when
        some last were."""
        self.running: dict[int, Request] = {}

    @property
    def free_slot(self) -> int | None:
        """The first empty row, of all engines' rows."""
        return next(iter(self._parts.rows.free_slots()), None)

    def slot_of(self, request: Request) -> int | None:
        """The slot of a running request."""
        return next((slot for slot, running in self.running.items() if running is request), None)

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a request that no forward has read yet."""
        slot, rows = self.slot_of(request), self._parts.rows
        return len(request.prompt) if slot is None else max(0, int(rows.prompt_len[slot] - rows.verified_len[slot]))

    def fits(self, request: Request, *, alone: bool) -> bool:
        """Whether the pages it is to have are there. Raises NoRoom if not, although it would be `alone`."""
        pool, shared = self._parts.pool, self._shared(request)
        if not alone and self._waits(request, len(shared)):
            return False
        length = self.promised(request) if alone else self._asked(request)
        need = pool.pages_for(length) - pool.held(shared)
        if need > pool.spare_pages and alone:
            raise NoRoom(
                f"a request of up to {length} tokens needs {need * pool.page_size} positions of cache, but only "
                f"{pool.spare_pages * pool.page_size} are free; lower max_tokens or drop kept prompts"
            )
        return need <= pool.spare_pages

    def open(self, slot: int, request: Request) -> None:
        """Puts a request into an empty row, with what it has written if it was put back, or leaves all as it was."""
        parts, view = self._parts, RowView(self._parts.rows, (slot,))
        written = request.committer.token_ids
        with ExitStack() as undo:
            undo.callback(parts.sampler.retire, slot)
            parts.sampler.admit(slot, request.params, request.prompt, parts.eos_token_ids)
            parts.sampler.commit(slot, written)
            shared, promised = self._shared(request), self.promised(request)
            sequence = Sequence(parts.pool, expected=request.limit, shared=shared, promised=promised)
            undo.callback(sequence.release)
            undo.callback(parts.rows.clear, slot)
            parts.rows.open(slot, request.ids, sequence, request.limit, written)
            parts.drafter.admit(view)
            undo.callback(parts.drafter.retire, view)
            parts.pacer.admit(view)
            undo.callback(parts.pacer.retire, view)
            request.clock.admitted = request.clock.admitted or time.perf_counter()
            self.running[slot] = request
            self._reading[slot] = 0
            undo.pop_all()

    def retire(self, slot: int) -> None:
        """Frees a row; whatever one part raises, the others are told too. Keeps the pages of a prompt read for that."""
        parts, view = self._parts, RowView(self._parts.rows, (slot,))
        with ExitStack() as everyone:
            everyone.callback(self.running.pop, slot)
            everyone.callback(self._reading.pop, slot, None)
            everyone.callback(parts.rows.close, slot)
            everyone.callback(parts.sampler.retire, slot)
            everyone.callback(parts.pacer.retire, view)
            everyone.callback(parts.drafter.retire, view)
            everyone.callback(self._keep_pages, slot)

    def publish(self) -> None:
        """Lets later requests share what has been read of the running prompts."""
        for slot, published in list(self._reading.items()):
            verified = int(self._parts.rows.verified_len[slot])
            if verified > published:
                self._publish(slot)
                self._reading[slot] = verified
            if verified >= len(self.running[slot].prompt) - 1:
                del self._reading[slot]

    def grow(self) -> bool:
        """Promises every row, the oldest request first, the pages of its next step; False if they are not there."""
        if self._options.reserve == "full":
            return True
        try:
            for slot, request in sorted(self.running.items(), key=lambda item: item[1].arrival):
                self._parts.rows.sequence(slot).promise(self.promised(request))
        except OutOfPages:
            return False
        return True

    def promised(self, request: Request) -> int:
        """The length whose pages a running request is promised: the longest outcome, or that of its next steps."""
        if self._options.reserve == "full":
            return request.limit
        return min(request.limit, request.length + self._steps * (self._parts.rows.max_draft + 1))

    @property
    def youngest(self) -> Request:
        """The running request that came last."""
        return max(self.running.values(), key=lambda request: request.arrival)

    def _waits(self, request: Request, shared: int) -> bool:
        """Whether a running request is about to read much of this one's prompt, of which `shared` pages are there."""
        if request.params.prompt_logprobs is not None or not self._options.prefix_reuse:
            return False
        have = shared * self._parts.pool.page_size
        reading = (self.running[slot].ids for slot in self._reading)
        may_share = self._parts.prefixes.may_share
        return any(may_share(request.ids, other, have + _WORTH_WAITING) for other in reading)

    def _asked(self, request: Request) -> int:
        """The length whose pages must be there to take a request in beside others."""
        room = _HEADROOM << min(request.preempted, 20)
        return max(self.promised(request), min(request.limit, request.length + room))

    def _publish(self, slot: int) -> None:
        if self._options.prefix_reuse:
            rows = self._parts.rows
            verified, pages = int(rows.verified_len[slot]), rows.sequence(slot).pages
            self._parts.prefixes.publish(self.running[slot].ids, pages, verified)

    def _keep_pages(self, slot: int) -> None:
        request = self.running[slot]
        if request.error:
            return
        self._publish(slot)
        if request.keep and request.committer.finish_reason not in (None, "abort"):
            request.kept = self._parts.prefixes.keep(request.ids, self._parts.rows.sequence(slot).pages)

    def _shared(self, request: Request) -> list[int]:
        # Prompt logprobs need every position's logits, so then nothing is shared.
        if request.params.prompt_logprobs is not None and not request.committer.token_ids:
            return []
        return self._parts.prefixes.find(request.ids, pinned=not self._options.prefix_reuse)

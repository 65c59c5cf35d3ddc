"""The running requests of one engine: taken into rows and pages, with all parts told, and out of them again."""

from __future__ import annotations

import time
from contextlib import ExitStack

from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.parts import Parts
from glimpse.engine.request import Request
from glimpse.errors import GlimpseError


class Residents:
    """`running` are the requests by slot; several engines over the same parts each have their own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
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
        return len(request.prompt) if slot is None else int(rows.prompt_len[slot] - rows.verified_len[slot])

    def fits(self, request: Request, *, alone: bool) -> bool:
        """Whether the pages it may need are there. Raises GlimpseError if they are not although it would be `alone`."""
        pool = self._parts.pool
        need = pool.pages_for(request.limit) - len(self._shared(request))
        if need > pool.spare_pages and alone:
            raise GlimpseError(
                f"a request of up to {request.limit} tokens needs {need * pool.page_size} positions of cache, but only "
                f"{pool.spare_pages * pool.page_size} are free; lower max_tokens or drop kept prompts"
            )
        return need <= pool.spare_pages

    def open(self, slot: int, request: Request) -> None:
        """Puts a request into an empty row, or leaves everything as it was."""
        parts, view = self._parts, RowView(self._parts.rows, (slot,))
        with ExitStack() as undo:
            undo.callback(parts.sampler.retire, slot)
            parts.sampler.admit(slot, request.params, request.prompt, parts.eos_token_ids)
            sequence = Sequence(parts.pool, expected=request.limit, shared=self._shared(request))
            undo.callback(sequence.release)
            undo.callback(parts.rows.clear, slot)
            parts.rows.open(slot, request.prompt, sequence, request.limit)
            parts.drafter.admit(view)
            undo.callback(parts.drafter.retire, view)
            parts.pacer.admit(view)
            undo.callback(parts.pacer.retire, view)
            request.clock.admitted = time.perf_counter()
            self.running[slot] = request
            undo.pop_all()

    def retire(self, slot: int) -> None:
        """Frees a row; whatever one part raises, the others are told too. Keeps the pages of a prompt read for that."""
        parts, view = self._parts, RowView(self._parts.rows, (slot,))
        with ExitStack() as everyone:
            everyone.callback(self.running.pop, slot)
            everyone.callback(parts.rows.close, slot)
            everyone.callback(parts.sampler.retire, slot)
            everyone.callback(parts.pacer.retire, view)
            everyone.callback(parts.drafter.retire, view)
            everyone.callback(self._keep_pages, slot)

    def _keep_pages(self, slot: int) -> None:
        request = self.running[slot]
        if request.keep and not request.error and request.committer.finish_reason not in (None, "abort"):
            request.kept = self._parts.prefixes.keep(request.prompt, self._parts.rows.sequence(slot).pages)

    def _shared(self, request: Request) -> list[int]:
        # Prompt logprobs need every position's logits, so then nothing is shared.
        return self._parts.prefixes.find(request.prompt) if request.params.prompt_logprobs is None else []

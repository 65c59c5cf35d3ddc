"""The one loop: rows of all running requests, whatever their phase, through one forward; then commit and learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import torch

from glimpse.cache.prefix import Key
from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.forward import forward, load_of
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.phases import PhasePlanner
from glimpse.engine.request import Progress, Request
from glimpse.engine.settle import Settler
from glimpse.errors import GlimpseError


class Engine:
    """Decodes requests together. Single-threaded: `step` until nothing is left."""

    def __init__(self, parts: Parts, options: EngineOptions) -> None:
        self.parts, self.options = parts, options
        self.steps = 0
        self._waiting: deque[Request] = deque()
        self._running: dict[int, Request] = {}
        self._keep: Request | None = None
        self._kept_key: Key | None = None
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer)
        self._settler = Settler(parts, self._running)

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._running)

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a running request that no forward has read yet."""
        for slot, running in self._running.items():
            if running is request:
                return int(self.parts.rows.prompt_len[slot] - self.parts.rows.verified_len[slot])
        return len(request.prompt)

    def add(self, request: Request) -> None:
        """Queues a request; one without room for a token has ended already."""
        if not request.finished:
            self._waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""
        if request in self._waiting:
            self._waiting.remove(request)
        for slot, running in list(self._running.items()):
            if running is request:
                self._retire(slot)
        request.committer.abort()

    def keep_prompt(self, request: Request, report: Callable[[Engine], None]) -> Key | None:
        """Reads a request's prompt (it should ask for one token) and keeps its pages; returns their key.

        None where there is nothing to read: the prompt fills the context.
        """
        self._keep, self._kept_key = request, None
        self.add(request)
        try:
            while not request.finished:
                self.step()
                report(self)
        except BaseException:
            self.cancel(request)
            raise
        finally:
            self._keep = None
        return self._kept_key

    @torch.inference_mode()
    def step(self) -> list[Progress]:
        """One forward for all running rows; returns what was committed."""
        self._admit()
        started = time.perf_counter()
        plan = self._planner.plan(self._running)
        specs = plan.specs
        if not specs:
            return []
        parts = self.parts
        load = load_of(specs, parts.rows)
        result = forward(parts.decoder, parts.pool, parts.rows, specs)
        self._planner.halted.update(self._settler.extend_drafts(plan, result))
        progress = self._settler.commit(plan, result, self.steps)
        for slot in [slot for slot, request in self._running.items() if request.finished]:
            self._keep_pages(slot)
            self._retire(slot)
        for made in progress:
            if made.request.hear:
                made.request.hear(made)
        self.steps += 1
        if not plan.prefill and all(spec.count <= parts.rows.max_draft + 1 for spec in plan.full):
            parts.costs.observe(load, time.perf_counter() - started)
        return progress

    def _admit(self) -> None:
        """First come, first served, while a row and the pages of the longest possible outcome are free.

        Raises GlimpseError for a request that does not fit although nothing else runs.
        """
        free = self.parts.rows.free_slots()
        while self._waiting and free:
            request = self._waiting[0]
            if not self._open(free[0], request):
                return
            self._waiting.popleft()
            free = self.parts.rows.free_slots()

    def _open(self, slot: int, request: Request) -> bool:
        """Puts a request into an empty row; False if it has to wait for pages."""
        parts = self.parts
        # Prompt logprobs need every position's logits, so then nothing is shared.
        shared = parts.prefixes.find(request.prompt) if request.params.prompt_logprobs is None else []
        need = parts.pool.pages_for(request.limit) - len(shared)
        if need > parts.pool.spare_pages:
            return self._wait(request, need)
        parts.sampler.admit(slot, request.params, request.prompt, parts.eos_token_ids)
        sequence = Sequence(parts.pool, expected=request.limit, shared=shared)
        parts.rows.open(slot, request.prompt, sequence, request.limit)
        self._running[slot] = request
        view = RowView(parts.rows, (slot,))
        parts.drafter.admit(view)
        parts.pacer.admit(view)
        request.clock.admitted = time.perf_counter()
        return True

    def _wait(self, request: Request, need: int) -> bool:
        if self._running:
            return False
        self._waiting.remove(request)
        pool = self.parts.pool
        request.error = (
            f"a request of up to {request.limit} tokens needs {need * pool.page_size} positions of cache, but only "
            f"{pool.spare_pages * pool.page_size} are free; lower max_tokens or drop kept prompts"
        )
        raise GlimpseError(request.error)

    def _keep_pages(self, slot: int) -> None:
        """Keeps the prompt of a request that has ended well, if it was read for that."""
        request = self._running[slot]
        if request is self._keep and not request.error:
            self._kept_key = self.parts.prefixes.keep(request.prompt, self.parts.rows.sequence(slot).pages)

    def _retire(self, slot: int) -> None:
        parts, view = self.parts, RowView(self.parts.rows, (slot,))
        parts.drafter.retire(view)
        parts.pacer.retire(view)
        parts.sampler.retire(slot)
        self._settler.forget(slot)
        self._planner.halted.discard(slot)
        parts.rows.close(slot)
        del self._running[slot]

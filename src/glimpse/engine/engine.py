"""The one loop: rows of all running requests, whatever their phase, through one forward; then commit and learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

import torch

from glimpse.cache.prefix import Key
from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.forward import forward, load_of
from glimpse.engine.memory import within_memory
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.phases import PhasePlanner
from glimpse.engine.request import Progress, Request
from glimpse.engine.settle import Settler
from glimpse.errors import GlimpseError


class Engine:
    """Decodes requests together: `step` until nothing is left.

    Any thread may call it. One lock is held during each call, by all engines over the same weights and cache.
    """

    def __init__(self, parts: Parts, options: EngineOptions) -> None:
        self.parts, self.options = parts, options
        self.steps = 0
        self._lock = parts.lock
        self._waiting: deque[Request] = deque()
        self._running: dict[int, Request] = {}
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer, parts.sampler.vocab_size)
        self._settler = Settler(parts, self._running)

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._running)

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a running request that no forward has read yet."""
        with self._lock:
            for slot, running in self._running.items():
                if running is request:
                    return int(self.parts.rows.prompt_len[slot] - self.parts.rows.verified_len[slot])
        return len(request.prompt)

    def add(self, request: Request) -> None:
        """Queues a request; one without room for a token has ended already."""
        with self._lock:
            if not request.finished:
                self._waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
            request.committer.abort()
            for slot, running in list(self._running.items()):
                if running is request:
                    self._retire(slot)

    def keep_prompt(self, request: Request, report: Callable[[Engine], None]) -> Key | None:
        """Reads a request's prompt (it should ask for one token) and keeps its pages; returns their key.

        None where there is nothing to read: the prompt fills the context. Raises what became of the request.
        """
        request.keep = True
        self.add(request)
        try:
            while not request.finished:
                self.step()
                report(self)
        except BaseException:
            self.cancel(request)
            raise
        if request.error is not None:
            raise request.error
        return request.kept

    def drop_prompt(self, key: Key) -> None:
        """Gives up a kept prompt."""
        with self._lock:
            self.parts.prefixes.drop(key)

    def step(self) -> list[Progress]:
        """One forward for all running rows; returns what was committed. Raises GlimpseError where memory runs out."""
        with self._lock, torch.inference_mode():
            return within_memory(self._run, self.parts.pool.device, self._less)

    @property
    def _less(self) -> str:
        """What would have needed less memory."""
        rows = self.parts.rows
        context = rows.width - rows.max_draft - 1
        return f"a max_batch_size below {rows.capacity} or a max_context below {context} needs less"

    def _run(self) -> list[Progress]:
        self._admit()
        return self._step()

    def _step(self) -> list[Progress]:
        started, parts = time.perf_counter(), self.parts
        plan = self._planner.plan(self._running)
        specs = plan.specs
        if not specs:
            return []
        load = load_of(specs, parts.rows)
        result = forward(parts.decoder, parts.pool, parts.rows, specs)
        self._planner.halted.update(self._settler.extend_drafts(plan, result))
        progress = self._settler.commit(plan, result, self.steps)
        self._planner.halted.update(self._settler.stuck)
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

        A request that cannot be taken in ends with its error, which its caller will find there.
        """
        free = self.parts.rows.free_slots()
        while self._waiting and free:
            request = self._waiting[0]
            try:
                if not self._fits(request):
                    return
                self._open(free[0], request)
            except GlimpseError as error:
                request.error = error
            self._waiting.popleft()
            free = self.parts.rows.free_slots()

    def _shared(self, request: Request) -> list[int]:
        # Prompt logprobs need every position's logits, so then nothing is shared.
        return self.parts.prefixes.find(request.prompt) if request.params.prompt_logprobs is None else []

    def _fits(self, request: Request) -> bool:
        """Whether the pages it may need are there. Raises GlimpseError if they are not although nothing else runs."""
        pool = self.parts.pool
        need = pool.pages_for(request.limit) - len(self._shared(request))
        if need > pool.spare_pages and not self._running:
            raise GlimpseError(
                f"a request of up to {request.limit} tokens needs {need * pool.page_size} positions of cache, but only "
                f"{pool.spare_pages * pool.page_size} are free; lower max_tokens or drop kept prompts"
            )
        return need <= pool.spare_pages

    def _open(self, slot: int, request: Request) -> None:
        """Puts a request into an empty row, or leaves everything as it was."""
        parts, view = self.parts, RowView(self.parts.rows, (slot,))
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
            self._running[slot] = request
            undo.pop_all()

    def _keep_pages(self, slot: int) -> None:
        """Keeps the prompt of a request that has ended well, if it was read for that."""
        request = self._running[slot]
        if request.keep and not request.error:
            request.kept = self.parts.prefixes.keep(request.prompt, self.parts.rows.sequence(slot).pages)

    def _retire(self, slot: int) -> None:
        """Frees a row; whatever one part raises, the others are told too."""
        parts, view = self.parts, RowView(self.parts.rows, (slot,))
        with ExitStack() as everyone:
            everyone.callback(self._running.pop, slot)
            everyone.callback(parts.rows.close, slot)
            everyone.callback(self._planner.halted.discard, slot)
            everyone.callback(self._settler.forget, slot)
            everyone.callback(parts.sampler.retire, slot)
            everyone.callback(parts.pacer.retire, view)
            everyone.callback(parts.drafter.retire, view)

"""The one loop: rows of all running requests, whatever their phase, through one forward; then commit and learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import torch

from glimpse.cache.prefix import Key
from glimpse.drafting.drafter import rider_of
from glimpse.engine.face import EngineFace, admit, enqueue, keep_prompt, put_back
from glimpse.engine.forward import forward, load_of
from glimpse.engine.memory import within_memory
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.phases import PhasePlanner
from glimpse.engine.request import Progress, Request
from glimpse.engine.residents import Residents
from glimpse.engine.riding import Riders
from glimpse.engine.settle import Settler
from glimpse.engine.watch import Watch, step_of
from glimpse.sampling.params import ResolvedParams


class Engine:
    """Decodes requests together: `step` until nothing is left.

    Any thread may call it. One lock is held during each call, by all engines over the same weights and cache.
    """

    def __init__(self, parts: Parts, options: EngineOptions) -> None:
        self.parts, self.options = parts, options
        self.steps = 0
        self.watch: Watch | None = None
        self._lock = parts.lock
        self._waiting: deque[Request] = deque()
        self._residents = Residents(parts, options)
        self._running = self._residents.running
        rider = rider_of(parts.drafter)
        riders = None if rider is None else Riders(parts.rows, rider, parts.pricer, parts.pacer)
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer, parts.sampler.vocab_size, riders)
        self._settler = Settler(parts, self._running, riders)

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._running)

    @property
    def facts(self) -> Mapping[str, object]:
        """Nothing of note."""
        return {}

    def warm_up(self) -> int:
        """Nothing: it runs without graphs."""
        return 0

    def refuses(self, params: ResolvedParams) -> str | None:
        """Nothing."""
        return None

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a running request that no forward has read yet."""
        with self._lock:
            return self._residents.prefill_left(request)

    def add(self, request: Request) -> None:
        """Queues a request; one without room for a token has ended already."""
        with self._lock:
            enqueue(self._waiting, request)

    def admit(self) -> None:
        """Takes waiting requests in, as far as there is room; `step` begins with it."""
        admit(self._waiting, self._residents, self._residents.open, others=lambda: bool(self._running))

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
            request.committer.abort()
            slot = self._residents.slot_of(request)
            if slot is not None:
                self._retire(slot)

    def preempt(self, request: Request) -> bool:
        """See `EngineFace.preempt`."""
        with self._lock:
            slot = self._residents.slot_of(request)
            if slot is None or request.finished:
                return False
            self._retire(slot)
            put_back(self._waiting, request)
            return True

    def keep_prompt(self, request: Request, report: Callable[[EngineFace], None]) -> Key | None:
        """See `face.keep_prompt`."""
        return keep_prompt(self, request, report)

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
        self._retire_finished()  # what a step that raised left
        self._residents.publish()
        while not self._residents.grow():
            self.preempt(self._residents.youngest)
        self.admit()
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
        progress = self._settler.trust(plan, result) + self._settler.commit(plan, result, self.steps)
        self._planner.halted.update(self._settler.stuck)
        if self.watch is not None:
            self.watch(step_of(plan, self._running, progress, parts.rows.max_draft, started))
        self._retire_finished()
        for made in progress:
            if made.request.hear:
                made.request.hear(made)
        self.steps += 1
        if not plan.prefill and all(spec.count <= parts.rows.max_draft + 1 for spec in plan.full):
            parts.costs.observe(load, time.perf_counter() - started)
        return progress

    def _retire_finished(self) -> None:
        for slot in [slot for slot, request in self._running.items() if request.finished]:
            self._retire(slot)

    def _retire(self, slot: int) -> None:
        """Frees a row; whatever one part raises, the others are told too."""
        with ExitStack() as everyone:
            everyone.callback(self._residents.retire, slot)
            everyone.callback(self._planner.halted.discard, slot)
            everyone.callback(self._settler.forget, slot)

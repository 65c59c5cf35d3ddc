"""The one loop: rows of all running requests, whatever their phase, through one forward; then commit and learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.acceptance import Acceptance
from glimpse.cache.pool import PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Drafter, Outcome
from glimpse.engine.forward import ForwardResult, forward, load_of
from glimpse.engine.logprobs import record_logprobs, record_prompt_logprobs
from glimpse.engine.options import EngineOptions
from glimpse.engine.phases import PhasePlanner, StepPlan
from glimpse.engine.request import Progress, Request
from glimpse.engine.sampling_step import DraftBook, Verified, verify
from glimpse.model import Decoder
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import Pacer
from glimpse.sampling.pipeline import Sampler


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is composed of."""

    decoder: Decoder
    pool: PagePool
    rows: Rows
    sampler: Sampler
    drafter: Drafter
    pacer: Pacer
    acceptance: Acceptance
    costs: StepCosts
    prefixes: PrefixStore
    budget: RecallBudget
    eos_token_ids: tuple[int, ...]


class Engine:
    """Decodes requests together. Single-threaded: `step` until nothing is left."""

    def __init__(self, parts: Parts, options: EngineOptions) -> None:
        self.parts, self.options = parts, options
        self.steps = 0
        self._waiting: deque[Request] = deque()
        self._running: dict[int, Request] = {}
        self._promised: dict[int, int] = {}
        self._keep: Request | None = None
        self._kept_key: tuple[int, ...] = ()
        self._planner = PhasePlanner(parts.rows, parts.drafter, parts.pacer)
        self._book = DraftBook(parts.rows, parts.sampler, parts.acceptance, has_law=parts.drafter.has_law)

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
        """Queues a request; it must fit the pool when alone."""
        self._waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""
        if request in self._waiting:
            self._waiting.remove(request)
        for slot, running in list(self._running.items()):
            if running is request:
                self._retire(slot)
        request.committer.abort()

    def keep_prompt(self, request: Request, report: Callable[[Engine], None]) -> tuple[int, ...]:
        """Reads a request's prompt (it should ask for one token) and keeps its pages; returns their key."""
        self._keep = request
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
        progress = self._absorb(plan, result)
        self.steps += 1
        if not plan.prefill and all(spec.count <= parts.rows.max_draft + 1 for spec in plan.full):
            parts.costs.observe(load, time.perf_counter() - started)
        return progress

    def _admit(self) -> None:
        """First come, first served, while a row and the pages of the longest possible outcome are free."""
        free = self.parts.rows.free_slots()
        while self._waiting and free:
            request = self._waiting[0]
            need = self.parts.pool.pages_for(request.limit)
            if need > self.parts.pool.pages - sum(self._promised.values()) - self.parts.prefixes.pages:
                return
            self._waiting.popleft()
            if not request.finished:
                self._open(free.pop(0), request, need)

    def _open(self, slot: int, request: Request, pages: int) -> None:
        parts = self.parts
        # Prompt logprobs need every position's logits, so then nothing is shared.
        shared = parts.prefixes.find(request.prompt) if request.params.prompt_logprobs is None else []
        sequence = Sequence(parts.pool, expected=request.limit, shared=shared)
        parts.rows.open(slot, request.prompt, sequence, request.limit)
        parts.sampler.admit(slot, request.params, request.prompt, parts.eos_token_ids)
        self._running[slot], self._promised[slot] = request, pages
        view = RowView(parts.rows, (slot,))
        parts.drafter.admit(view)
        parts.pacer.admit(view)
        request.clock.admitted = time.perf_counter()

    def _retire(self, slot: int) -> None:
        parts, view = self.parts, RowView(self.parts.rows, (slot,))
        parts.drafter.retire(view)
        parts.pacer.retire(view)
        parts.sampler.retire(slot)
        if self._running[slot] is self._keep and not self._keep.error:
            pages = parts.rows.sequence(slot).pages
            self._kept_key = parts.prefixes.keep(self._keep.prompt, pages)
        self._book.forget(slot)
        self._planner.halted.discard(slot)
        parts.rows.close(slot)
        del self._running[slot], self._promised[slot]

    def _absorb(self, plan: StepPlan, result: ForwardResult) -> list[Progress]:
        """Everything that follows a forward."""
        parts, rows = self.parts, self.parts.rows
        bounds = len(plan.prefill), len(plan.prefill) + len(plan.draft)
        for spec, logits in zip(plan.prefill, result.logits, strict=False):
            record_prompt_logprobs(self._running[spec.slot], spec.start, logits)
            rows.verified_len[spec.slot] = spec.stop
        if plan.draft:
            slots = [spec.slot for spec in plan.draft]
            stuck = self._book.extend(slots, torch.cat(result.logits[bounds[0] : bounds[1]]))
            self._planner.halted.update(stuck)
            for slot in slots:
                self._running[slot].speculation.draft_steps += 1
        if not plan.full:
            return []
        slots = [spec.slot for spec in plan.full]
        draft, logits = self._book.draft(slots), result.logits[bounds[1] :]
        for spec, own in zip(plan.full, logits, strict=True):
            record_prompt_logprobs(self._running[spec.slot], spec.start, own)
        judged = [own[-1 - len(range(*draft.offsets[i : i + 2])) :] for i, own in enumerate(logits)]
        verified = verify(rows, parts.sampler, parts.acceptance, draft, slots, torch.cat(judged))
        return self._commit(plan, verified, judged, result.importance[bounds[1] :])

    def _commit(
        self, plan: StepPlan, verified: Verified, logits: list[Tensor], importance: list[Tensor | None]
    ) -> list[Progress]:
        """The cut list of every row, and all that is cut by it."""
        progress: list[Progress] = []
        outcomes: list[Outcome] = []
        paths, token_lists = verified.accepted.paths(), verified.accepted.token_lists()
        for index, spec in enumerate(plan.full):
            request = self._running[spec.slot]
            if spec.slot in verified.broken:
                request.error = f"step {self.steps}: {verified.broken[spec.slot]}"
                progress.append(Progress(request, request.committer.abort(), 0))
                continue
            first = not request.committer.token_ids
            drafted = verified.draft.offsets[index + 1] - verified.draft.offsets[index]
            tokens = token_lists[index]
            commit = request.committer.commit(tokens)
            kept = list(commit.token_ids)
            accepted = min(len(tokens) - 1, len(kept))
            if drafted or not first:
                request.speculation.record(drafted, accepted)
            record_logprobs(request, logits[index], [0, *[n + 1 for n in paths[index]]], kept)
            outcomes.append(
                Outcome(spec.slot, drafted, accepted, kept, _kept_importance(importance[index], drafted - accepted))
            )
            request.clock.mark_tokens()
            progress.append(Progress(request, commit, accepted))
        self._learn(outcomes)
        for spec in plan.full:
            if self._running[spec.slot].finished:
                self._retire(spec.slot)
        return progress

    def _learn(self, outcomes: list[Outcome]) -> None:
        parts = self.parts
        view = RowView(parts.rows, tuple(outcome.slot for outcome in outcomes))
        parts.pacer.observe(view, outcomes)
        for outcome in outcomes:
            verified = int(parts.rows.committed_len[outcome.slot]) + outcome.accepted
            parts.rows.commit(outcome.slot, outcome.tokens, verified)
            parts.rows.sequence(outcome.slot).truncate(verified)
            parts.sampler.commit(outcome.slot, outcome.tokens)
        parts.drafter.absorb(view, outcomes)


def _kept_importance(weights: Tensor | None, rejected: int) -> Tensor | None:
    """The weights of the queries that stay, over the positions that stay."""
    if weights is None:
        return None
    return weights[:, :, : weights.shape[2] - rejected, : weights.shape[3] - rejected]

"""A cell of the engine's own loop: what runs on a CPU, and any drafter there is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from glimpse.bench.clock import clock_of
from glimpse.bench.decode.cell import Round, params_of
from glimpse.bench.held import WINDOW, Held
from glimpse.cache.recall import ImportanceWindow
from glimpse.drafting import DRAFTERS
from glimpse.engine.build import build_engine, refuse_unused
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.engine.request import Progress, Request
from glimpse.engine.submit import make_requests
from glimpse.errors import ArgumentError
from glimpse.model.checkpoint import Checkpoint
from glimpse.sampling.params import SamplingParams

MOST_ROWS = 16
"""Rows whose last pages are read in one step, so that they stay in step from then on."""
_SHARE = 0.001
"""Of the context: the floor alone says how much a draft reads."""
_SLACK = 40
"""Positions beyond what the rows may write: the first token, and drafts thrown away."""


class EngineCell:
    """Requests of one engine, their prompts kept in the cache; every rewinding asks them anew."""

    def __init__(
        self, checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], budget: int, room: int, longest: int,
        drafter: str = "sparse", adapter: str | None = None,
    ) -> None:  # fmt: skip
        """Each row may write `room` tokens and draft `longest`; a sparse draft reads `budget` positions, and `adapter`
        is the file for a drafter that takes one.

        Raises ArgumentError for more rows than stay in step.
        """
        self.spec, self.dtype = checkpoint.spec, checkpoint.decoder.dtype
        self.context, self.rows = len(prompts[0]), len(prompts)
        refuse_rows(self.rows)
        self.clock, self.how = clock_of(checkpoint.decoder.device), f"engine, {torch.get_num_threads()} threads"
        self.reads_cache = bool(DRAFTERS.get(drafter).needs_forward)
        self._tokens, self._drafter, self._budget, self._adapter = room + _SLACK, drafter, budget, adapter
        self._loaded = load(checkpoint, self.context + self._tokens + longest, self.rows + 1)
        self._engines: dict[int, EngineFace] = {0: build_engine(self._loaded, self._options("none", 0))}
        self._engine = self._engines[0]
        self._prompts = [list(prompt) for prompt in prompts]
        self._running: list[Request] = []
        self._last: list[Progress] = []
        self._before: list[int] = []
        self._sure: list[list[float]] = []
        self._kept: list[Round] = []
        self._window: tuple[Held, ImportanceWindow] | None = None
        self.resample(0.0, 0)
        begun = time.perf_counter()
        self._keys = [self._engine.keep_prompt(self._request(prompt, 0, 1), _silent) for prompt in self._prompts]
        self.prefill_s = time.perf_counter() - begun

    def resample(self, temperature: float, turn: int) -> None:
        """See `Cell.resample`."""
        self._temperature, self._first_seed = temperature, turn * self.rows

    def rewind(self, drafts: int) -> None:
        """See `Cell.rewind`: asks for all texts anew, up to their first tokens."""
        self._stop()
        self._engine = self._made(drafts)
        self._running = [self._request(prompt, row, self._tokens) for row, prompt in enumerate(self._prompts)]
        for request in self._running:
            self._engine.add(request)
        self._commit()
        self._kept.clear()

    def plain(self) -> None:
        """See `Cell.plain`."""
        self._commit()

    def draft(self, count: int) -> None:
        """See `Cell.draft`; a drafter that looks up drafts within the verification's step."""
        if self.reads_cache:
            for _ in range(count):
                self._engine.step()

    def verify(self, count: int, *, learn: bool = True) -> None:
        """See `Cell.verify`. Without `learn`, rewind before the next draft: there is nothing to choose it from."""
        rows = self._engine.parts.rows
        lengths = [int(rows.draft_len[row]) for row in range(self.rows)]
        self._sure = [rows.draft_confidence[row, :length].tolist() for row, length in enumerate(lengths)]
        self._before = [request.speculation.drafted for request in self._running]
        with _learning(self._engine.parts.drafter, learn):
            self._commit()

    def select(self) -> None:
        """See `Cell.select`: from the first prompt's last queries, for every row."""
        if self._window is None:
            self._window = self._importance()
        held, window = self._window
        for _ in range(self.rows):
            held.recalled(held.length, self._engine.parts.budget, window)

    def note(self) -> None:
        """See `Cell.note`."""
        committed = {id(made.request): len(made.commit.token_ids) for made in self._last}
        drafted = [
            request.speculation.drafted - before for request, before in zip(self._running, self._before, strict=True)
        ]
        self._kept.append(Round(drafted, [committed.get(id(request), 0) for request in self._running], self._sure))

    def noted(self) -> list[Round]:
        """See `Cell.noted`."""
        return list(self._kept)

    def written(self) -> list[list[int]]:
        """See `Cell.written`; the first token of each came with the prompt."""
        return [list(request.committer.token_ids) for request in self._running]

    def close(self) -> None:
        """See `Cell.close`."""
        self._stop()
        if self._window is not None:
            self._window[0].close()
        for key in self._keys:
            if key is not None:
                self._engines[0].drop_prompt(key)

    def _commit(self) -> None:
        """Steps until something is committed."""
        self._last = []
        while not self._last and self._engine.busy:
            self._last = self._engine.step()

    def _stop(self) -> None:
        for request in self._running:
            self._engine.cancel(request)
        self._running = []

    def _options(self, drafter: str, drafts: int) -> EngineOptions:
        """Prompts are kept in the cache by name, so that runs differ in nothing else."""
        return EngineOptions(drafter, "fixed", draft_tokens=drafts or None, prefix_reuse=False)

    def _made(self, drafts: int) -> EngineFace:
        if drafts not in self._engines:
            options = self._options(self._drafter, drafts).changed(adapter=self._adapter)
            if self.reads_cache:
                options = options.changed(budget=_SHARE, budget_floor=self._budget)
            refuse_unused(options)
            self._engines[drafts] = build_engine(self._loaded, options)
        return self._engines[drafts]

    def _request(self, prompt: list[int], row: int, tokens: int) -> Request:
        params: SamplingParams = params_of(self._temperature, self._first_seed + row, tokens)
        (request,) = make_requests(self._loaded, self._engine, prompt, params)
        return request

    def _importance(self) -> tuple[Held, ImportanceWindow]:
        held = Held(self._engines[0].parts, self._prompts[0])
        window = held.window()
        weights = held.last(min(WINDOW, held.length), importance=WINDOW).importance[0]
        assert weights is not None
        window.push(weights)
        return held, window


def refuse_rows(rows: int) -> None:
    """Raises ArgumentError for more rows than stay in step."""
    if rows > MOST_ROWS:
        raise ArgumentError(f"{rows} rows: on this device the engine keeps at most {MOST_ROWS} in step")


@contextmanager
def _learning(drafter: Any, wanted: bool) -> Iterator[None]:
    """Without it, the drafter asks no importance of the verification, as a drafter that looks up does."""
    if wanted:
        yield
        return
    drafter.importance = 0
    try:
        yield
    finally:
        del drafter.importance


def _silent(engine: EngineFace) -> None:
    """Hears progress and says nothing."""

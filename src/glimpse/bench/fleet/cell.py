"""A batch of the engine whose prompts are read once: every run asks for its texts anew, by whatever policy."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

import torch

from glimpse.bench.clock import clock_of
from glimpse.bench.decode.cell import params_of
from glimpse.bench.fleet.arms import NONE, Arm
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.fleet.window import Window, run_window, step_until
from glimpse.cache.prefix import Key
from glimpse.engine.build import build_engine, make_parts, refuse_unused
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import load
from glimpse.engine.request import Request
from glimpse.engine.submit import make_requests
from glimpse.errors import GlimpseError
from glimpse.model.checkpoint import Checkpoint

EARLIER = 128
"""Tokens before the end of a prompt at which other texts begin, from whose runs a setting is chosen; a quarter of the
context where that is less."""


class FleetCell:
    """Engines over one cache, an engine an arm; at most `rows` rows run at once."""

    def __init__(
        self, checkpoint: Checkpoint, prompts: Sequence[list[int]], budget: int, room: int, adapter: str | None = None
    ) -> None:
        """Prompts of one length; a row may write `room` tokens, a draft reads `budget` positions or is made by an
        adapter.

        Raises GlimpseError where not all rows fit the memory at once, saying how many do.
        """
        self.spec, self.dtype = checkpoint.spec, checkpoint.decoder.dtype
        self.context, self.rows, self.room = len(prompts[0]), len(prompts), room
        device = checkpoint.decoder.device
        self.clock, self.budget, self._adapter = clock_of(device), budget, adapter
        self._prompts = [list(prompt) for prompt in prompts]
        self._loaded = load(checkpoint, self.context + room, self.rows)
        self._refuse_crowds()
        self._engines: dict[Arm, EngineFace] = {}
        self.graphs = device.type == "cuda"
        self.how = "device engine, CUDA graphs" if self.graphs else f"engine, {torch.get_num_threads()} threads"
        self._keys: list[Key | None] = []
        self.prefill_s = 0.0

    def read(self) -> None:
        """Reads all prompts and keeps them in the cache."""
        begun, engine = time.perf_counter(), self.engine(Arm(NONE))
        for place in range(self.rows):
            request = self._request(engine, self._prompts[place], seed=0, tokens=1, temperature=0.0)
            self._keys.append(engine.keep_prompt(request, _silent))
        self.prefill_s = time.perf_counter() - begun

    def why_eager(self, arm: Arm) -> str | None:
        """Why an arm does not run as CUDA graphs; None if it does."""
        if not self.graphs:
            return "no CUDA device"
        from glimpse.engine.device.eligible import why_not_engine

        return why_not_engine(make_parts(self._loaded, arm.options(self.budget, self._adapter)))

    def run(
        self, arm: Arm, rows: int, turn: int, temperature: float, effort: FleetEffort, *, earlier: bool = False
    ) -> tuple[Window, list[list[int]]]:
        """A run of an arm, and its texts. Row r of turn t has the same prompt and seed for every arm.

        `earlier`: of texts that begin some way before the ends of the prompts.
        """
        engine, requests = self.engine(arm), self.requests(arm, rows, turn, temperature, earlier=earlier)
        try:
            for request in requests:
                engine.add(request)
            while not all(request.committer.token_ids or request.finished for request in requests):
                engine.step()
            step_until(engine, requests, rows * effort.warm - sum(map(_written, requests)))
            window = run_window(engine, requests, self.clock, rows * effort.tokens)
            return window, [list(request.committer.token_ids) for request in requests]
        finally:
            for request in reversed(requests):  # the last row goes without another moving into its place
                engine.cancel(request)

    def requests(self, arm: Arm, rows: int, turn: int, temperature: float, *, earlier: bool = False) -> list[Request]:
        """The requests of a run, not yet queued."""
        engine = self.engine(arm)
        return [
            self._request(engine, self._prompt(place, earlier), turn * rows + row, self.room, temperature)
            for row, place in enumerate(self.places(rows, turn))
        ]

    def places(self, rows: int, turn: int) -> list[int]:
        """The prompts of a batch: spread over all, others in every turn where there are more of them."""
        return [(row * self.rows // rows + turn) % self.rows for row in range(rows)]

    def close(self) -> None:
        """Gives the memory back."""
        for key in self._keys:
            if key is not None:
                self.engine(Arm(NONE)).drop_prompt(key)
        self._engines.clear()

    def engine(self, arm: Arm) -> EngineFace:
        """The engine of an arm; what its pacer learns of the device's steps it keeps from run to run."""
        if arm not in self._engines:
            options = arm.options(self.budget, self._adapter)
            refuse_unused(options)
            self._engines[arm] = build_engine(self._loaded, options)
        return self._engines[arm]

    def forget(self, arm: Arm) -> None:
        """Gives an arm's engine up, with its graphs."""
        self._engines.pop(arm, None)
        gc.collect()

    def _prompt(self, place: int, earlier: bool) -> list[int]:
        own = self._prompts[place]
        return own[: len(own) - min(EARLIER, len(own) // 4)] if earlier else own

    def _request(self, engine: EngineFace, prompt: list[int], seed: int, tokens: int, temperature: float) -> Request:
        (request,) = make_requests(self._loaded, engine, prompt, params_of(temperature, seed, tokens))
        return request

    def _refuse_crowds(self) -> None:
        pool = self._loaded.pool
        own = pool.pages_for(self.context + self.room)
        if own * self.rows > pool.pages:
            raise GlimpseError(
                f"{self.rows} rows of {self.context + self.room} tokens need {own * self.rows} pages of cache, but "
                f"there is memory for {pool.pages} only: at most {pool.pages // own} rows fit"
            )


def _written(request: Request) -> int:
    return len(request.committer.token_ids)


def _silent(engine: EngineFace) -> None:
    """Hears progress and says nothing."""

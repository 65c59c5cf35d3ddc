"""A synchronous batch: its memory, its prompts, its rounds, and what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.engine.device.choose import settings_of
from glimpse.engine.device.prefill import Scores, chunk_of, read
from glimpse.engine.device.rounds import DeviceRounds
from glimpse.engine.device.settings import RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.model import Decoder
from glimpse.sampling.noise import to_int64
from glimpse.sampling.params import ResolvedParams


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch is made for."""

    rows: int
    width: int
    """Tokens a row can hold, prompt, output and drafts."""
    most: int
    """The longest draft."""
    page_size: int = 16


class DeviceBatch:
    """Rows of one model that decode in step."""

    def __init__(self, decoder: Decoder, vocab: int, limits: Limits, settings: RoundSettings) -> None:
        spec, device = decoder.spec, decoder.device
        pages = -(-limits.width // limits.page_size)
        shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
        self.decoder, self.limits, self._vocab, self._settings = decoder, limits, vocab, settings
        self.pool = PagePool(shape, pages * limits.rows, limits.page_size, decoder.dtype, device)
        self.rows = DeviceRows.empty(limits.rows, limits.width, limits.most, pages, device)
        self.rows.table.copy_(torch.arange(limits.rows * pages).view(limits.rows, pages))
        budget = settings.budget.positions(limits.width)
        self.recall = DeviceRecall.empty(
            spec.layers, limits.rows, spec.heads, spec.kv_heads, limits.width, budget, device
        )
        self.rounds: DeviceRounds
        self._prompts: list[int] = []
        self._start: dict[str, Tensor] = {}

    def fill(self, prompts: Sequence[Sequence[int]], params: Sequence[ResolvedParams], most_tokens: int) -> None:
        """Reads one prompt into each row; each may write about `most_tokens`. Rewinds to here with `rewind`."""
        rows, device = self.rows, self.decoder.device
        self._set(params)
        self.rounds = DeviceRounds(self.decoder, self.pool, rows, self.recall, self._settings, self._vocab)
        for row, prompt in enumerate(prompts):
            self._read(row, torch.tensor(prompt, dtype=torch.int64, device=device))
            # Drafts are verified whatever the limit: behind it, a longest one must fit.
            most = self.limits.most
            rows.limit[row] = min(self.limits.width - most - 1, len(prompt) + most_tokens + 2 * most)
        rows.active.fill_(1)
        self._prompts = [len(prompt) for prompt in prompts]
        kept = {"length": rows.length, "fresh": self.recall.fresh, "reference": self.recall.reference}
        self._start = {name: tensor.clone() for name, tensor in kept.items()}
        self.rewind()

    def _read(self, row: int, prompt: Tensor) -> None:
        """Reads a prompt [n] into a row, whose pages lie together."""
        first, start, count = int(self.rows.table[row, 0]) * self.limits.page_size, 0, len(prompt)
        scores = Scores(self.recall.fresh[:, row], self.recall.reference[:, row])
        self.rows.tokens[row, :count] = prompt
        self.rows.length[row] = count
        while start < count:
            stop = start + chunk_of(count - start)
            last = scores if stop == count else None
            read(self.rounds.forward, self.pool, [(first, stop)], prompt[start:stop], start, last)
            start = stop

    def resample(self, params: Sequence[ResolvedParams]) -> None:
        """Rewinds, and samples by other settings from now on."""
        self._set(params)
        self.rounds.refresh()
        self.rewind()

    def _set(self, params: Sequence[ResolvedParams]) -> None:
        rows = self.rows
        held = (rows.settings.temperature, rows.settings.top_k, rows.settings.top_p, rows.settings.log_min_p)
        for row, own in enumerate(params):
            numbers = settings_of(own.temperature, own.top_k, own.top_p, own.min_p)
            for target, number in zip(held, numbers, strict=True):
                target[row] = number
            rows.seeds[row] = to_int64(own.seed)

    def rewind(self) -> None:
        """Back to the end of the prompts; graphs stay."""
        rows, recall = self.rows, self.recall
        rows.length.copy_(self._start["length"])
        recall.fresh.copy_(self._start["fresh"])
        recall.reference.copy_(self._start["reference"])
        rows.drafted.zero_()
        rows.active.fill_(1)
        self.rounds.begin()

    def written(self) -> list[list[int]]:
        """The output of each row so far."""
        lengths = self.rows.length.tolist()
        return [
            self.rows.tokens[row, prompt:length].tolist()
            for row, (prompt, length) in enumerate(zip(self._prompts, lengths, strict=True))
        ]

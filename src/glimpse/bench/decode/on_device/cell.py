"""A cell of device rounds: CUDA graphs on a GPU, Triton's interpreter in tests."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from glimpse.bench.clock import clock_of
from glimpse.bench.decode.cell import Round, params_of
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model.checkpoint import Checkpoint
from glimpse.sampling.resolve import resolve

_SLACK = 10
"""Positions beyond what the rows may write."""
_USABLE = 0.92
"""Share of the free memory that a cell may take: graphs and workspaces need the rest."""


class DeviceCell:
    """Rows of one model on a device, in step (`DeviceBatch`)."""

    reads_cache = True

    def __init__(
        self, checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], budget: int, room: int, longest: int,
        drafter: str = "sparse",
    ) -> None:  # fmt: skip
        """Each row may write `room` tokens and draft `longest`; a draft reads `budget` positions of its prompt.

        Raises ArgumentError for a drafter that device rounds do not have, GlimpseError for rows that do not fit.
        """
        if drafter != "sparse":
            raise ArgumentError(f"drafter {drafter!r} does not run on a GPU yet; use sparse, or --device cpu")
        self.spec, self.dtype = checkpoint.spec, checkpoint.decoder.dtype
        self.context, self.rows = len(prompts[0]), len(prompts)
        self.clock = clock_of(checkpoint.decoder.device)
        self.how = "device rounds in step" + (", CUDA graphs" if checkpoint.decoder.device.type == "cuda" else "")
        limits = Limits(self.rows, self.context + room + 2 * longest + _SLACK, longest)
        self._check_memory(limits, budget, checkpoint.decoder.device)
        settings = RoundSettings(RecallBudget(share=0.001, floor=budget))
        self.batch = DeviceBatch(checkpoint.decoder, checkpoint.tokenizer.vocab_size, limits, settings)
        begun = time.perf_counter()
        with torch.inference_mode():
            self.batch.fill(prompts, [resolve(params_of(0.0, row)) for row in range(self.rows)], room)
        self._wait()
        self.prefill_s = time.perf_counter() - begun
        self._longest, self._drafts, self._kept = longest, 0, list[tuple[Tensor, Tensor]]()

    def resample(self, temperature: float, turn: int) -> None:
        """See `Cell.resample`."""
        self.batch.resample([resolve(params_of(temperature, turn * self.rows + row)) for row in range(self.rows)])

    def rewind(self, drafts: int) -> None:
        """See `Cell.rewind`."""
        if drafts > self._longest:
            raise ArgumentError(f"a draft of {drafts} tokens; this cell was made for at most {self._longest}")
        self.batch.rewind()
        self._drafts = drafts
        self._kept.clear()

    def plain(self) -> None:
        """See `Cell.plain`."""
        self.batch.rounds.plain()

    def draft(self, count: int) -> None:
        """See `Cell.draft`."""
        self.batch.rounds.draft(count)

    def verify(self, count: int, *, learn: bool = True) -> None:
        """See `Cell.verify`."""
        self.batch.rounds.verify(count, learn=learn)

    def select(self) -> None:
        """See `Cell.select`."""
        self.batch.rounds.select()

    def note(self) -> None:
        """See `Cell.note`: copies on the device."""
        rows = self.batch.rows
        self._kept.append((rows.counts.clone(), rows.confidence.clone()))

    def noted(self) -> list[Round]:
        """See `Cell.noted`."""
        drafted, count = [self._drafts] * self.rows, self._drafts
        return [Round(drafted, counts.tolist(), sure[:, :count].tolist()) for counts, sure in self._kept]

    def written(self) -> list[list[int]]:
        """See `Cell.written`."""
        return self.batch.written()

    def close(self) -> None:
        """See `Cell.close`."""
        self._kept.clear()
        del self.batch
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _wait(self) -> None:
        if self.batch.decoder.device.type == "cuda":
            torch.cuda.synchronize()

    def _check_memory(self, limits: Limits, budget: int, device: torch.device) -> None:
        """Raises GlimpseError before anything is allocated, saying how many rows would fit."""
        if device.type != "cuda":
            return
        own, layers = self.spec.kv_bytes_per_token(self.dtype) * limits.width, self.spec.layers * self.spec.kv_heads
        own += 4 * layers * limits.width + 4 * layers * budget + 8 * limits.width
        free = torch.cuda.mem_get_info(device)[0] * _USABLE
        if own * limits.rows > free:
            raise GlimpseError(
                f"{limits.rows} rows of {limits.width} tokens need {own * limits.rows / 2**30:.1f} GiB of GPU memory "
                f"beside the weights, but only {free / 2**30:.1f} GiB can be used: at most {int(free // own)} rows fit"
            )

"""Cells of the GPU benchmarks: a model, a context and a batch of rows, prefilled with real text once and rewound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glimpse.bench.clock import copy_bandwidth
from glimpse.bench.grow import grow_checkpoint
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.model import load_checkpoint
from glimpse.sampling.params import SamplingParams
from glimpse.sampling.resolve import resolve

SAMPLED: dict[str, Any] = {"temperature": 0.7, "top_k": 50, "top_p": 0.9}
GREEDY: dict[str, Any] = {"temperature": 0.0}
TOKENS = 150
"""What each row may write."""


def timed(function: Callable[[], object], repeat: int = 20) -> float:
    """Median seconds of a function that only enqueues work."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeat)]
    for begin, end in events:
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return float(np.median([begin.elapsed_time(end) for begin, end in events])) / 1e3


def copy_rate() -> float:
    """Bytes a second, read and written, of large copies: the better of two kinds."""
    source = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    rate = 4 * source.numel() / timed(lambda: target.copy_(source), 10)
    return max(rate, copy_bandwidth())


def product_rate() -> float:
    """Operations a second of a large bf16 product."""
    side = 8192
    left, right = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    left @ right
    return 2 * side**3 / timed(lambda: left @ right, 10)


def read_ids(path: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All texts of the file, one behind the other."""
    texts = np.load(path)
    return np.concatenate([texts[name] for name in texts.files]).astype(np.int64)


@dataclass
class Loader:
    """The demo model, or a twin of it at a larger model's cost; keeps one at a time."""

    path: Path
    _name: tuple[str, bool] = ("", False)
    _held: list[Any] = field(default_factory=list)

    def __call__(self, name: str, context: int) -> Any:
        """The checkpoint in bf16; past 8,192 positions with a raised rotary base."""
        far = context > 8192
        if self._name != (name, far):
            self._held.clear()
            torch.cuda.empty_cache()
            begun = time.perf_counter()
            self._held.append(self._load(name, far))
            torch.cuda.synchronize()
            print(f"{name} loaded in {time.perf_counter() - begun:.1f} s", flush=True)
            self._name = (name, far)
        return self._held[0]

    def _load(self, name: str, far: bool) -> Any:
        if name == "demo":
            return load_checkpoint(self.path, dtype=torch.bfloat16, device="cuda")
        theta = 1e6 if far else None
        return grow_checkpoint(
            self.path, name, dtype=torch.bfloat16, device="cuda", rope_theta=theta, context_length=65536
        )


class Cell:
    """One model, context and batch; row r reads the text from another place and samples with seed r."""

    def __init__(
        self, checkpoint: Any, ids: Any, context: int, rows: int, budget: int, most: int,
        sampling: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.context, self.rows = checkpoint.spec, context, rows
        limits = Limits(rows, context + TOKENS + 10 + 2 * most, most)
        settings = RoundSettings(RecallBudget(share=0.001, floor=budget))
        self.batch = DeviceBatch(checkpoint.decoder, checkpoint.tokenizer.vocab_size, limits, settings)
        starts = np.linspace(0, len(ids) - context - 1, rows).astype(int)
        prompts = [ids[start : start + context].tolist() for start in starts]
        begun = time.perf_counter()
        laws = [resolve(SamplingParams(**(sampling or SAMPLED), seed=row)) for row in range(rows)]
        with torch.inference_mode():
            self.batch.fill(prompts, laws, TOKENS)
        torch.cuda.synchronize()
        self.prefill_s = time.perf_counter() - begun

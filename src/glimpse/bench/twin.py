"""The same checkpoint in transformers: the reference for greedy text, and the baseline that everyone has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glimpse.model import resolve_model


@dataclass(frozen=True, slots=True)
class TwinRun:
    """One `generate`, with the prompt's forward apart."""

    token_ids: list[int]
    prefill_s: float
    """Up to the first token."""
    decode_s: float
    """From the first token to the last."""

    @property
    def tokens_per_s(self) -> float:
        """Decode speed, counted as `Timing.tokens_per_s` counts it."""
        return (len(self.token_ids) - 1) / self.decode_s


class _Clock:
    """A streamer that notes when tokens come; the first call brings the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is kept back."""


class Twin:
    """`transformers` with its defaults (its own attention and cache), float32, greedy, never stopping early."""

    def __init__(self, model: str) -> None:
        from transformers import AutoModelForCausalLM

        path = Path(resolve_model(model))
        place: dict[str, Any] = {"pretrained_model_name_or_path": path}
        if path.suffix == ".gguf":
            place = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
        self._model: Any = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32, local_files_only=True).eval()
        settings = self._model.generation_config
        settings.eos_token_id, settings.pad_token_id = None, 0

    def generate(self, ids: Sequence[int], tokens: int) -> TwinRun:
        """`tokens` new tokens after `ids`."""
        clock = _Clock()
        prompt = torch.tensor([list(ids)])
        started = time.perf_counter()
        with torch.inference_mode():
            out = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=tokens,
                do_sample=False,
                streamer=clock,
            )
        first, last = clock.times[1], clock.times[-1]
        return TwinRun(out[0, len(ids) :].tolist(), first - started, last - first)

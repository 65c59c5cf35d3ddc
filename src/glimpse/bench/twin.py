"""The same checkpoint in transformers: the reference for greedy text, and the baseline that everyone has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glimpse.errors import GlimpseError
from glimpse.model import resolve_model
from glimpse.model.gguf_config import spec_from_gguf
from glimpse.model.rope_scaling import Plain
from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.gguf import GgufWeights
from glimpse.model.weights.gguf_file import open_gguf


@dataclass(frozen=True, slots=True)
class TwinRun:
    """One `generate`, with the prompt's forward apart."""

    token_ids: list[int]
    prefill_s: float
    """Up to the first token."""
    decode_s: float
    """From the first tokens to the last ones."""
    first_tokens: int = 1
    """Tokens that the prompt's forward brought: drafts may be accepted in it."""

    @property
    def tokens_per_s(self) -> float:
        """Decode speed, counted as `Timing.tokens_per_s` counts it."""
        return (len(self.token_ids) - self.first_tokens) / self.decode_s


class _Clock:
    """A streamer that notes when tokens come; the first call brings the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())
        self.counts.append(value.numel())

    def end(self) -> None:
        """Nothing is kept back."""


class Twin:
    """`transformers` with its defaults (its own attention and cache), float32, greedy, never stopping early."""

    def __init__(self, model: str) -> None:
        path = Path(resolve_model(model))
        self._model: Any = _from_gguf(path) if path.suffix == ".gguf" else _from_folder(path)
        settings = self._model.generation_config
        settings.eos_token_id, settings.pad_token_id = None, 0

    def generate(self, ids: Sequence[int], tokens: int, *, lookup: int = 0) -> TwinRun:
        """`tokens` new tokens after `ids`; with drafts of up to `lookup` tokens from its prompt lookup, unless 0."""
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
                **({"prompt_lookup_num_tokens": lookup} if lookup else {}),
            )
        first, last = clock.times[1], clock.times[-1]
        return TwinRun(out[0, len(ids) :].tolist(), first - started, last - first, clock.counts[1])


def _from_folder(path: Path) -> Any:
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    return auto.from_pretrained(path, dtype=torch.float32, local_files_only=True).eval()


def _from_gguf(path: Path) -> Any:
    """The weights handed over one by one: transformers reads GGUF files only with a package that nothing else needs."""
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    file = open_gguf(path)
    spec = spec_from_gguf(file)
    interleaved = {"q_proj": spec.heads, "k_proj": spec.kv_heads} if spec.architecture == "llama" else None
    source = GgufWeights(file, interleaved)
    model: Any = auto.from_config(transformers.AutoConfig.for_model(**_config(spec))).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied head is not among them
            parameter.copy_(source.tensor(name))
    return model


def _config(spec: DecoderSpec) -> dict[str, Any]:
    if not isinstance(spec.rope.scaling, Plain):
        raise GlimpseError("the transformers twin of a GGUF file is only made for unscaled rotary positions")
    return {
        "model_type": spec.architecture,
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tied,
        "max_position_embeddings": spec.context_length,
        "rope_parameters": {"rope_type": "default", "rope_theta": spec.rope.theta},
    }

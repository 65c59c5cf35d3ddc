"""Tiny models of every shape that decoding may depend on, each loaded once."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.adapters import write_random_adapter
from tests.tiny import write_json, write_tiny_checkpoint

from glimpse.llm import LLM

CONTEXT = 96
ROWS = 3


@dataclass(frozen=True)
class Shape:
    """One kind of model and cache."""

    family: str
    heads: tuple[int, int]
    page_size: int
    overrides: dict[str, Any] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        return f"{self.family}-{self.heads[0]}/{self.heads[1]}-pages of {self.page_size}{self.overrides or ''}"


DYNAMIC = {"max_position_embeddings": 32, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
SHAPES = (
    Shape("llama", (6, 2), 16),
    Shape("llama", (9, 3), 1),
    Shape("llama", (6, 2), 5, DYNAMIC),
    Shape("mistral", (4, 1), 7),
    Shape("qwen2", (5, 5), 4),
    Shape("qwen3", (6, 3), 32),
)


@cache
def adapter(shape: Shape) -> Path:
    """The file of a random adapter for blocks of four."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return write_random_adapter(Path(folder) / "adapter", plain(shape))


@cache
def plain(shape: Shape) -> LLM:
    """Plain decoding of a model of this shape, without an end of text."""
    with tempfile.TemporaryDirectory() as folder:
        path, (heads, kv_heads) = Path(folder) / "model", shape.heads
        write_tiny_checkpoint(
            path, shape.family, hidden_size=8 * heads, num_attention_heads=heads, num_key_value_heads=kv_heads,
            **shape.overrides,
        )  # fmt: skip
        for name, key in (("config.json", "eos_token_id"), ("tokenizer_config.json", "eos_token")):
            write_json(path / name, json.loads((path / name).read_text()) | {key: None})
        size = shape.page_size
        with patch("glimpse.engine.loaded.PAGE_SIZE", size), patch("glimpse.engine.memory.PAGE_SIZE", size):
            llm = LLM(path, drafter="none", pacer="fixed", max_batch_size=ROWS, max_context=CONTEXT, device="cpu")
    assert llm.loaded.pool.page_size == size
    return llm.variant(budget_floor=8, prefix_reuse=False)

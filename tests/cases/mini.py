"""Checkpoints of shapes of their own: M-tiny with other sizes, without an end of text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tiny import write_json, write_tiny_checkpoint

from glimpse.llm import LLM


def write_mini(folder: Path, *, tokenizer: dict[str, Any] | None = None, **shape: Any) -> Path:
    """A tiny checkpoint without an end-of-text token; `tokenizer` is what `write_tiny_checkpoint` is told of one."""
    write_tiny_checkpoint(folder, **(tokenizer or {}), **shape)
    for name, change in (("config.json", {"eos_token_id": None}), ("tokenizer_config.json", {"eos_token": None})):
        write_json(folder / name, json.loads((folder / name).read_text()) | change)
    return folder


def mini(folder: Path, rows: int = 4, max_context: int | None = None, **shape: Any) -> LLM:
    """An LLM of `write_mini`, plainly decoding."""
    given = {"drafter": "none", "pacer": "fixed", "max_batch_size": rows, "device": "cpu", "max_context": max_context}
    return LLM(write_mini(folder, **shape), **given)

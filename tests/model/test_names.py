"""What a GGUF file's model is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from glimpse.model.names import gguf_name

DEMO = {"general.name": "Smollm2 135M 8k Lc100K Mix1 Ep2", "general.basename": "smollm2"}


@pytest.mark.parametrize(
    ("metadata", "file", "name"),
    [
        (DEMO, "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct"),
        (DEMO, "smollm2-135m-bf16.gguf", "smollm2-135m"),
        (DEMO, "model.gguf", "Smollm2 135M 8k Lc100K Mix1 Ep2"),
        ({"general.name": "Llama 3.1 8B Instruct"}, "x-Q4_K_M.gguf", "Llama 3.1 8B Instruct"),
        ({}, "Llama-3.1-8B-Q4_K_M.gguf", "Llama-3.1-8B"),
        ({"general.basename": 3, "general.name": ["a"]}, "Llama-3.1.gguf", "Llama-3.1"),
    ],
)
def test_the_most_readable_name_is_taken(metadata, file, name):
    assert gguf_name(metadata, Path("models") / file) == name

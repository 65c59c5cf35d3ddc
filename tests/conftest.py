"""What the tests of several rooms share: one thread (tiny models are slower on more), and a tiny checkpoint."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glimpse.engine.place import place
from glimpse.llm import LLM
from tests.tiny import write_json, write_tiny_checkpoint

torch.set_num_threads(1)


def pytest_collection_finish():
    """What was imported stays: the collector need not walk through millions of objects again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    """Device auto is the CPU: the tests mean the same where there is a GPU. Those of tests/gpu have their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glimpse.llm.place", lambda asked: place("cpu" if asked == "auto" else asked))
        yield


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A folder with a tiny random Llama without an EOS token, so that outputs have full length."""
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("tiny") / "llama")
    # An absent key would get the default of LlamaConfig, which is 2.
    for name, change in (("config.json", {"eos_token_id": None}), ("tokenizer_config.json", {"eos_token": None})):
        write_json(folder / name, json.loads((folder / name).read_text()) | change)
    return folder


@pytest.fixture
def altered(tiny_folder, tmp_path):
    """altered(generation={...}, **config) -> a folder with the tiny checkpoint's weights and changed settings."""

    def make(generation: dict[str, Any] | None = None, **config: Any) -> Path:
        folder = tmp_path / f"altered{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for file in tiny_folder.iterdir():
            if file.name != "config.json":
                (folder / file.name).symlink_to(file)
        write_json(folder / "config.json", json.loads((tiny_folder / "config.json").read_text()) | config)
        if generation is not None:
            write_json(folder / "generation_config.json", generation)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """Plain decoding of the tiny checkpoint; `tiny.variant` gives other engines over the same weights and cache."""
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=40, device="cpu").variant(budget_floor=8)

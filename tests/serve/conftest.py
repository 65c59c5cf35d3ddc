"""Servers over tiny checkpoints: one whose texts never end by themselves, and one whose texts do."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from tests.serve.server import running
from tests.tiny import write_tiny_checkpoint

from glimpse.llm import LLM


@pytest.fixture(scope="session")
def endless_llm(tiny_folder):
    return LLM(tiny_folder, drafter="lookup", pacer="fixed", draft_tokens=3, max_batch_size=4, device="cpu")


@pytest.fixture(scope="module")
def endless(endless_llm):
    """No text ends by itself."""
    with running(endless_llm) as server:
        yield server


@pytest.fixture(scope="session")
def ending_llm(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("serve") / "ending")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = TOOLS_TEMPLATE + settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return LLM(folder, drafter="lookup", pacer="fixed", draft_tokens=3, max_batch_size=4, device="cpu").variant(
        budget_floor=8
    )


TOOLS_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\nuse <tool_call>' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|im_end|>' + '\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def ending(ending_llm):
    """Texts end where the model ends them, and the chat template knows tools."""
    with running(ending_llm) as server:
        yield server

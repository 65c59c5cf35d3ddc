"""The drafter `auto` on the device engine: chains and plain steps only, with the text of plain decoding."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.drafting.auto import AutoDrafter
from glimpse.engine.device.eligible import why_not_engine
from glimpse.llm import LLM


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("auto"))
    return LLM(folder, device="cpu", drafter="none", pacer="fixed", max_batch_size=2)


def test_it_runs_on_the_device_and_says_what_it_leaves_out(llm, monkeypatch):
    monkeypatch.setattr(AutoDrafter, "build", classmethod(lambda cls, context: cls.of_chains(context.nodes)))
    monkeypatch.setattr("glimpse.pacing.auto.LOOK", 1)
    auto = on_device(llm, drafter="auto", pacer=None)
    assert why_not_engine(auto._engine.parts) is None
    prompts = prompts_of(llm, 20, 34)
    outputs = auto.generate(prompts, greedy(10))
    assert ids_of(outputs) == ids_of(llm.generate(prompts, greedy(10)))
    choices = [choice for out in outputs for choice in out.speculation.choices]
    assert set(choices[0].expected) == {"none", "lookup"}
    assert "on a GPU only none and lookup" in choices[0].note
    assert not auto._engine.parts.drafter._rows

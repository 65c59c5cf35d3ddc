"""LibraSpec's pacers on the device: no margins are told, nothing is given back, and the text is the same."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

SPARSE = {"drafter": "sparse", "draft_tokens": 2, "budget": 0.1, "budget_floor": 38}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("libra"), num_attention_heads=2, num_key_value_heads=1)
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.fixture(autouse=True)
def few_processors(monkeypatch):
    """So that the interpreter has few programs to run."""
    for module in ("attention", "recalled"):
        monkeypatch.setattr(f"glimpse.attention.triton.{module}.processors", lambda device: 4)


@pytest.mark.parametrize("pacer", ["marginal", "libraspec"])
def test_the_text_is_the_eager_engines(llm, pacer, monkeypatch):
    """`libraspec` drafts whatever it costs; `marginal` may find that under the interpreter nothing pays."""
    monkeypatch.setattr("glimpse.pacing.rounds.PLAIN_FIRST", 0)
    prompts = prompts_of(llm, 20, 33)
    params = [greedy(4), SamplingParams(max_tokens=4, temperature=0.8, seed=3, ignore_eos=True)]
    device = on_device(llm, pacer=pacer, **SPARSE)
    outputs = device.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    drafted = sum(output.speculation.drafted for output in outputs)
    assert drafted == sum(output.speculation.draft_steps for output in outputs), "all that was drafted is verified"
    assert pacer == "marginal" or drafted > 0
    assert not device._engine.parts.pacer._drawn

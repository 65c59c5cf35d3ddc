"""The drafter `auto` on the device engine: trees, chains and plain steps, with the text of plain decoding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.drafting.auto import AutoDrafter
from glimpse.engine.device.eligible import why_not_engine
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

HOST = {"none", "lookup", "suffix", "racer", "racer+suffix"}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("auto"), num_attention_heads=2, num_key_value_heads=1)
    return LLM(folder, device="cpu", drafter="none", pacer="fixed", max_batch_size=2)


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(AutoDrafter, "build", classmethod(lambda cls, context: cls.for_graphs(context)))
    monkeypatch.setattr("glimpse.pacing.auto.LOOK", 1)
    for module in ("attention", "recalled"):
        monkeypatch.setattr(f"glimpse.attention.triton.{module}.processors", lambda device: 4)


def two_likeliest(gains, prices, rows, seconds):
    return [np.argsort(-own, kind="stable")[:2] for own in gains]


def test_trees_are_verified_on_the_device_whoever_is_chosen(llm, monkeypatch):
    """Nodes pay, whatever they take here; RACER begins, by its guess, and both rows change to another after a while."""
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    monkeypatch.setattr("glimpse.pacing.marginal.worthwhile", two_likeliest)
    monkeypatch.setattr("glimpse.pacing.auto_choice.DWELL", 2)
    order = iter(["suffix", "none", "racer+suffix", "lookup"] * 9)

    def elsewhere(chooser, position, speeds):
        changed = position >= 2 and position % 2 == 0
        chooser.current = next(order) if changed else chooser.current
        return changed

    monkeypatch.setattr("glimpse.pacing.auto_choice.Chooser.decide", elsewhere)
    first, other = prompts_of(llm, 6, 4)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    prompts = [first + written + first, other]
    params = [greedy(6), SamplingParams(max_tokens=6, temperature=0.8, seed=3, ignore_eos=True)]
    auto = on_device(llm, drafter="auto", pacer=None, draft_tokens=6)
    parts = auto._engine.parts
    assert why_not_engine(parts) is None
    assert parts.drafter.wants_successors
    outputs = auto.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert sum(out.speculation.drafted for out in outputs) > 0
    choices = [choice for out in outputs for choice in out.speculation.choices]
    assert set(choices[0].expected) == HOST
    assert "on a GPU without sparse" in choices[0].note
    assert len({choice.drafter for choice in choices}) > 2
    assert not parts.drafter._rows
    assert all(set(out.speculation.eager_steps) == {"no CUDA device"} for out in outputs)


def test_where_bits_count_it_has_chains_only(llm, monkeypatch):
    build = AutoDrafter.for_graphs

    def chains(cls, context):
        return build(replace(context, chains_only=True))

    monkeypatch.setattr(AutoDrafter, "build", classmethod(chains))
    auto = on_device(llm, drafter="auto", pacer=None)
    prompts = prompts_of(llm, 5)
    outputs = auto.generate(prompts, greedy(4))
    assert ids_of(outputs) == ids_of(llm.generate(prompts, greedy(4)))
    assert set(outputs[0].speculation.choices[0].expected) == {"none", "lookup"}
    assert "bitwise" in outputs[0].speculation.choices[0].note
    with pytest.raises(ArgumentError, match="suffix_store means nothing"):
        on_device(llm, drafter="auto", pacer=None, suffix_store="mine")


def test_a_budget_means_nothing_without_self_drafting(llm):
    with pytest.raises(ArgumentError, match="budget means nothing to drafter 'auto' on a GPU"):
        on_device(llm, drafter="auto", pacer=None, budget=0.2)
    assert on_device(llm, drafter="auto", pacer=None).settings["budget"] is None

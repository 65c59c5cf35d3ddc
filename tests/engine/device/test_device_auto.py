"""The drafter `auto` on the device engine: trees, chains and plain steps, with the text of plain decoding."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.drafting.auto import AutoDrafter
from glimpse.engine.device.eligible import why_not_engine
from glimpse.engine.submit import make_requests
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.pacing.strides import Schedule
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


def two_likeliest(gains, *_):
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
    assert "sparse drafts for all rows or for none" in choices[0].note
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


def in_threes(pacer, rows):
    return Schedule(3, np.ones(len(rows), dtype=np.int64))


@pytest.fixture
def takes_turns(monkeypatch):
    """The batch changes its way at every third look, whatever that brings; all drafts are thought worth it."""
    looks = itertools.count()

    def look(in_step, rows, brought):
        was = in_step.chosen
        in_step.chosen = next(looks) // 3 % 2 == 1
        return in_step._told(rows, 2.0, 1.0) if in_step.chosen is not was else {}

    monkeypatch.setattr("glimpse.pacing.in_step.InStep.look", look)
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer._plain_is_unknown", lambda pacer, rows: False)
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    monkeypatch.setattr("glimpse.pacing.marginal.worthwhile", two_likeliest)
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer.schedule", in_threes)


def test_the_batch_drafts_for_itself_and_asks_the_host_in_turns(llm, takes_turns):
    """Three requests over two rows, one of which joins late: the text of plain decoding, from both kinds of draft."""
    first, *others = prompts_of(llm, 6, 4, 9)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    prompts = [first + written + first, *others]
    params = [greedy(14), SamplingParams(max_tokens=9, temperature=0.8, seed=3, ignore_eos=True), greedy(7)]
    auto = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    outputs = auto.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    made = [out.speculation for out in outputs]
    assert sum(one.draft_steps for one in made) > 4
    assert sum(one.drafted - one.draft_steps for one in made) > 2
    said = [choice.drafter for one in made for choice in one.choices]
    assert "sparse" in said
    assert {"none", "host drafts", "sparse"} == set(
        next(choice for one in made for choice in one.choices if choice.drafter == "sparse").expected
    )
    parts = auto._engine.parts
    assert not parts.drafter._rows
    assert not parts.pacer.in_step.fleet._chances._rows
    assert parts.pool.free_pages == llm.loaded.pool.free_pages


def test_requests_are_put_back_in_either_way(llm, takes_turns):
    prompts, params = prompts_of(llm, 7, 5), [greedy(24), greedy(20)]
    auto = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    right, engine = ids_of(llm.generate(prompts, params)), auto._engine
    requests = [make_requests(llm.loaded, engine, *pair)[0] for pair in zip(prompts, params, strict=True)]
    for request in requests:
        engine.add(request)
    for step in range(200):
        if not engine.busy:
            break
        engine.step()
        if step % 3 == 2 and step < 30:
            engine.preempt(requests[step // 3 % 2])
    assert [list(request.committer.token_ids) for request in requests] == right
    assert sum(request.preempted for request in requests) > 2


@pytest.mark.parametrize(("gain", "sparse"), [(2.0, True), (1.0, False)])
def test_the_batch_drafts_for_itself_where_that_pays(llm, monkeypatch, gain, sparse):
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer.gain", lambda pacer, rows: gain)
    auto = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    prompts, params = prompts_of(llm, 9, 5), [greedy(12), greedy(5)]
    outputs = auto.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    for output in outputs:
        assert any(choice.drafter == "sparse" for choice in output.speculation.choices) is sparse


def test_a_budget_is_for_the_batch_that_drafts_for_itself(llm):
    assert on_device(llm, drafter="auto", pacer=None, budget=0.2).settings["budget"] == 0.2

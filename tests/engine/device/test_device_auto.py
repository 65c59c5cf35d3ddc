"""The drafter `auto` on the device engine: trees, chains and plain steps, with the text of plain decoding."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.cuts import cut_to_likeliest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.drafting.auto import AutoDrafter
from glimpse.drafting.auto_graphs import auto_on_graphs
from glimpse.engine.device.core import Core
from glimpse.engine.device.eligible import why_not_engine
from glimpse.engine.device.reading import Reader
from glimpse.engine.device.turns import Turns
from glimpse.engine.submit import make_requests
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.pacing.auto import AutoPacer
from glimpse.pacing.auto_graphs import AutoGraphsPacer
from glimpse.pacing.strides import Schedule
from glimpse.sampling.params import SamplingParams


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("auto"), num_attention_heads=2, num_key_value_heads=1)
    return LLM(folder, device="cpu", drafter="none", pacer="fixed", max_batch_size=2)


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(AutoDrafter, "build", auto_on_graphs)
    monkeypatch.setattr(AutoPacer, "build", lambda context: AutoGraphsPacer(context))
    for module in ("attention", "recalled"):
        monkeypatch.setattr(f"glimpse.attention.triton.{module}.processors", lambda device: 4)


@pytest.mark.parametrize(("store", "source"), [(None, "racer"), ("mine", "racer+suffix")])
def test_trees_are_verified_on_the_device_from_the_first_step_on(llm, monkeypatch, store, source):
    """Nodes pay, whatever they take here; prompts' successors are told, so a text without repeats is drafted for."""
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    monkeypatch.setattr("glimpse.pacing.marginal.cut", cut_to_likeliest(2))
    first, other = prompts_of(llm, 6, 4)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    prompts = [first + written + first, other]
    params = [greedy(6), SamplingParams(max_tokens=6, temperature=0.8, seed=3, ignore_eos=True)]
    auto = on_device(llm, drafter="auto", pacer=None, draft_tokens=6, suffix_store=store)
    parts = auto._engine.parts
    assert why_not_engine(parts) is None
    assert parts.drafter.wants_successors
    told, recycle = [], parts.drafter.recycle

    def recycled(slot, read):
        told.append(read.tokens.tolist())
        recycle(slot, read)

    monkeypatch.setattr(parts.drafter, "recycle", recycled)
    outputs = auto.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert sum(out.speculation.drafted for out in outputs) > 0
    assert all(prompt[:4] in [tokens[:4] for tokens in told] for prompt in prompts), "prompts' successors too"
    for out in outputs:
        choice = out.speculation.choices[0]
        assert (choice.drafter, set(choice.expected)) == (source, {"none", source, "sparse"})
        assert f"the host drafts by {source} for all rows" in choice.note
    assert not parts.drafter._sources
    assert all(set(out.speculation.eager_steps) == {"no CUDA device"} for out in outputs)


def test_where_bits_count_it_has_chains_only(llm, monkeypatch):
    def chains(context):
        return auto_on_graphs(replace(context, chains_only=True))

    monkeypatch.setattr(AutoDrafter, "build", chains)
    auto = on_device(llm, drafter="auto", pacer=None)
    prompts = prompts_of(llm, 5)
    outputs = auto.generate(prompts, greedy(4))
    assert ids_of(outputs) == ids_of(llm.generate(prompts, greedy(4)))
    assert set(outputs[0].speculation.choices[0].expected) == {"none", "lookup", "sparse"}
    assert "bitwise" in outputs[0].speculation.choices[0].note
    with pytest.raises(ArgumentError, match="suffix_store means nothing"):
        on_device(llm, drafter="auto", pacer=None, suffix_store="mine")


def test_a_request_that_runs_eagerly_is_told_who_drafts(llm):
    """Penalties are not the device's: the same parts decode them beside."""
    auto = on_device(llm, drafter="auto", pacer=None)
    params = SamplingParams(max_tokens=4, temperature=0.0, frequency_penalty=0.5, ignore_eos=True)
    prompts = prompts_of(llm, 5)
    (output,) = auto.generate(prompts, params)
    assert ids_of([output]) == ids_of(llm.generate(prompts, params))
    assert output.speculation.choices[0].drafter == "racer"


def in_threes(pacer, rows):
    return Schedule(3, np.ones(len(rows), dtype=np.int64))


@pytest.fixture
def takes_turns(monkeypatch):
    """The batch changes its way at every fourth look, whatever that brings; all drafts are thought worth it."""
    looks = itertools.count()

    def look(in_step, rows, *speeds):
        was = in_step.chosen
        in_step.chosen = next(looks) // 4 % 2 == 1
        if in_step.chosen is not was:
            in_step._told.clear()
        return in_step.untold(rows)

    monkeypatch.setattr("glimpse.pacing.in_step.InStep.look", look)
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer._plain_is_unknown", lambda pacer, rows: False)
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    monkeypatch.setattr("glimpse.pacing.marginal.cut", cut_to_likeliest(2))
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer.schedule", in_threes)


def test_the_batch_drafts_for_itself_and_asks_the_host_in_turns(llm, takes_turns):
    """Three requests over two rows, one of which joins late: the text of plain decoding, from both kinds of draft."""
    first, *others = prompts_of(llm, 6, 4, 9)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    prompts = [first + written + first, *others]
    params = [greedy(20), SamplingParams(max_tokens=7, temperature=0.8, seed=3, ignore_eos=True), greedy(10)]
    auto = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    outputs = auto.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    made = [out.speculation for out in outputs]
    assert sum(one.draft_steps for one in made) > 4
    assert sum(one.drafted - one.draft_steps for one in made) > 2
    said = [choice.drafter for one in made for choice in one.choices]
    assert "sparse" in said
    assert {"racer", "sparse"} <= set(said)
    assert {tuple(choice.expected) for one in made for choice in one.choices} == {("none", "racer", "sparse")}
    parts = auto._engine.parts
    assert not parts.drafter._sources
    assert not parts.pacer.in_step.fleet._chances._rows
    assert parts.pool.free_pages == llm.loaded.pool.free_pages


def test_requests_are_put_back_in_either_way(llm, takes_turns):
    prompts, params = prompts_of(llm, 7, 5), [greedy(14), greedy(12)]
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


@pytest.mark.parametrize("own", [False, True])
def test_what_is_important_in_prompts_is_asked_only_where_the_batch_drafts_for_itself(llm, monkeypatch, own):
    """A batch that turns to drafts of its own later begins with sets anew, so that nobody has missed it."""
    asked, scores = [], Reader._scores
    monkeypatch.setattr(Reader, "_scores", lambda reader: asked.append(True) or scores(reader))
    begun, begin = [], Core.begin
    monkeypatch.setattr(Core, "begin", lambda *given: begun.append(True) or begin(*given))
    auto = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    auto._engine._host.turns.own, auto._engine._reader._tails = own, None  # which is for short prompts
    monkeypatch.setattr(Turns, "due", False)
    prompts = prompts_of(llm, 100)
    assert ids_of(auto.generate(prompts, greedy(2))) == ids_of(llm.generate(prompts, greedy(2)))
    assert bool(asked) is bool(begun) is own

"""Requests put back into the queue: the same tokens, text and logprobs after it, in the order in which they came."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.doubles import Noisy, with_parts

from glimpse.engine.finish import output_of
from glimpse.engine.submit import make_requests
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

DRAW = random.Random(8)
PROMPTS = [DRAW.choices(range(3, 300), k=length) for length in (60, 3, 120, 17)]
PARAMS = [SamplingParams(temperature=0.9, top_k=40, max_tokens=20 + seed, seed=seed) for seed in range(4)]
STATEFUL = SamplingParams(
    max_tokens=24, temperature=0.8, seed=3, repetition_penalty=1.2, frequency_penalty=0.5, bad_words=[[7, 8]],
    logit_bias={7: 6.0, 8: 6.0}, min_tokens=18, stop_token_ids=list(range(100, 160)), logprobs=2, prompt_logprobs=1,
)  # fmt: skip


@pytest.fixture
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=3, max_context=192).variant(budget_floor=8)


def requests_of(llm, prompts, params):
    pairs = zip(prompts, params, strict=True)
    return [make_requests(llm.loaded, llm._engine, ids, own)[0] for ids, own in pairs]


def nothing_left(llm):
    pool, parts = llm.loaded.pool, llm._engine.parts
    assert (pool.free_pages, pool.promised, int(pool._wished.sum())) == (pool.pages, 0, 0)
    assert len(parts.rows.free_slots()) == 3
    assert not any(parts.sampler.params)
    assert not any(processor.states for processor in parts.sampler._processors)


@contextmanager
def scarce(llm, pages):
    """A cache of so many pages."""
    pool = llm.loaded.pool
    taken = pool.allocate(pool.free_pages - pages, 0)
    yield
    pool.release(taken)


def variants(llm, texts):
    yield llm
    yield llm.variant(drafter="sparse", draft_tokens=4)
    yield llm.variant(drafter="sparse", pacer="entropy", acceptance="matched")
    yield llm.variant(drafter="lookup", draft_tokens=3)
    yield with_parts(llm, Noisy(texts, 0.4), draft_tokens=6)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
@pytest.mark.parametrize("reuse", [True, False])
def test_in_any_phase(llm, monkeypatch, steps, reuse):
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 48)
    right = [llm.generate([ids], own)[0].token_ids for ids, own in zip(PROMPTS, PARAMS, strict=True)]
    for own in variants(llm.variant(prefix_reuse=reuse), list(zip(PROMPTS, right, strict=True))):
        engine = own._engine
        requests = requests_of(own, PROMPTS, PARAMS)
        for request in requests:
            engine.add(request)
        put_back = 0
        for victim in (*requests, requests[0]):
            for _ in range(steps):
                engine.step()
            put_back += engine.preempt(victim)
            assert not engine.preempt(victim), "it waits, or has ended"
        while engine.busy:
            engine.step()
        assert [tuple(request.committer.token_ids) for request in requests] == right
        assert sum(request.preempted for request in requests) == put_back >= 1
        nothing_left(own)


@pytest.mark.parametrize("steps", [1, 2, 5, 19])
def test_states_of_processors_logprobs_and_text(llm, monkeypatch, steps):
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 32)
    right = llm.generate([PROMPTS[0]], STATEFUL)[0]
    for drafter in ("none", "lookup", "sparse"):
        own = llm.variant(drafter=drafter)
        (request,) = requests_of(own, PROMPTS[:1], [STATEFUL])
        heard = []
        request.hear = heard.append
        own._engine.add(request)
        for _ in range(steps):
            own._engine.step()
        admitted = request.clock.admitted
        assert own._engine.preempt(request)
        while own._engine.busy:
            own._engine.step()
        found = output_of(request, {})
        assert (found.token_ids, found.text, found.stop_reason) == (right.token_ids, right.text, right.stop_reason)
        assert "".join(made.commit.text for made in heard) == right.text
        assert [entry.token_id for entry in found.logprobs] == list(right.token_ids)
        got = [entry.logprob for entry in found.logprobs]
        assert got == pytest.approx([entry.logprob for entry in right.logprobs], abs=1e-3)
        assert len(found.prompt_logprobs) == len(PROMPTS[0])
        got = [entry.logprob for entry in found.prompt_logprobs[1:]]
        assert got == pytest.approx([entry.logprob for entry in right.prompt_logprobs[1:]], abs=1e-3)
        assert found.speculation.emitted >= len(right.token_ids) - 1
        assert request.clock.admitted == admitted
        nothing_left(own)


def test_it_waits_at_its_old_place(llm):
    """Three rows: the one put back goes before those that came later."""
    requests = requests_of(llm, [PROMPTS[1]] * 5, [PARAMS[3]] * 5)
    for request in requests:
        llm._engine.add(request)
    llm._engine.step()
    assert llm._engine.preempt(requests[1])
    assert list(llm._engine._waiting) == [requests[1], *requests[3:]]
    llm._engine.step()
    assert set(llm._engine._running.values()) == set(requests[:3])
    for request in requests:
        llm._engine.cancel(request)
    nothing_left(llm)


def test_one_put_back_can_be_cancelled(llm):
    (request,) = requests_of(llm, PROMPTS[:1], PARAMS[:1])
    llm._engine.add(request)
    for _ in range(4):
        llm._engine.step()
    written = list(request.committer.token_ids)
    llm._engine.preempt(request)
    llm._engine.cancel(request)
    assert not llm._engine.busy
    assert request.committer.token_ids == written
    assert request.committer.finish_reason == "abort"
    nothing_left(llm)


@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_the_youngest_goes_when_pages_run_out(llm, drafter):
    """Three requests of up to 8 pages in a cache of 12: "full" runs one at a time, "next" all three, then fewer."""
    params = [SamplingParams(max_tokens=108, temperature=0.7, seed=seed) for seed in range(3)]
    prompts = [ids[:20] for ids in PROMPTS[::2]] + [PROMPTS[3]]
    right = [llm.generate([ids], own)[0].token_ids for ids, own in zip(prompts, params, strict=True)]
    most = {}
    for reserve in ("full", "next"):
        own = llm.variant(drafter=drafter, reserve=reserve, draft_tokens=None)
        requests = requests_of(own, prompts, params)
        with scarce(llm, 12):
            for request in requests:
                own._engine.add(request)
            running = []
            while own._engine.busy:
                own._engine.step()
                running.append(len(own._engine._running))
        assert [tuple(request.committer.token_ids) for request in requests] == right
        most[reserve] = max(running)
        assert requests[0].preempted == 0, "the oldest is never put back"
        assert (sum(request.preempted for request in requests) > 0) == (reserve == "next")
        assert sum(request.preempted for request in requests) < 10
        nothing_left(own)
    assert most["full"] == 1
    assert most["next"] > 1


def test_room_asked_for_grows_with_every_time_it_was_put_back(llm):
    """So that it does not come and go at every step."""
    own = llm.variant(reserve="next", draft_tokens=None)
    (request,) = requests_of(own, [PROMPTS[1]], [SamplingParams(max_tokens=180, seed=1)])
    asked = []
    for put_back in (0, 1, 2, 60):
        request.preempted = put_back
        asked.append(own._engine._residents._asked(request) - len(PROMPTS[1]))
    assert asked == [64, 128, 180, 180]


def test_alone_without_pages_it_says_so(llm):
    """A request that nobody can make room for ends with an error, and its pages are back."""
    own = llm.variant(reserve="next")
    with scarce(llm, 4), pytest.raises(GlimpseError, match="positions of cache, but only 64 are free"):
        own.generate([PROMPTS[0][:20]], SamplingParams(max_tokens=100, temperature=0.0))
    nothing_left(own)


def test_dynamic_rope(altered):
    """Keys depend on the prompt's length, and past it on each position's: read again, they are the same."""
    folder = altered(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    llm = LLM(folder, drafter="none", pacer="fixed", max_batch_size=3)
    params = SamplingParams(max_tokens=40, temperature=0.0)
    for length in (20, 60):
        right = llm.generate([PROMPTS[2][:length]], params)[0].token_ids
        (request,) = requests_of(llm, [PROMPTS[2][:length]], [params])
        llm._engine.add(request)
        for turn in range(60):
            llm._engine.step()
            if turn in (8, 25):
                assert llm._engine.preempt(request)
        assert tuple(request.committer.token_ids) == right


def test_a_wrong_reserve_is_refused(llm):
    with pytest.raises(GlimpseError, match="reserve must be 'full' or 'next', not 'some'"):
        llm.variant(reserve="some")
    assert replace(llm.options, reserve="next").reserve == "next"

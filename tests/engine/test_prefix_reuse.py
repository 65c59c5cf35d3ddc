"""Prompts that begin alike share pages on their own, nobody can tell by the text; a long prompt holds nobody up."""

from __future__ import annotations

import random

import pytest

from glimpse.cache.prefix import PrefixStore
from glimpse.engine.forward import forward
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

DRAW = random.Random(6)
IDS = DRAW.choices(range(3, 300), k=150)
GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
SAMPLED = SamplingParams(max_tokens=12, temperature=0.9, seed=2)


@pytest.fixture
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=3, max_context=256).variant(budget_floor=8)


@pytest.fixture
def fed(monkeypatch):
    """Tokens of each forward."""
    counts = []

    def counted(decoder, pool, rows, specs):
        counts.append(sum(spec.count for spec in specs))
        return forward(decoder, pool, rows, specs)

    monkeypatch.setattr("glimpse.engine.engine.forward", counted)
    return counts


def alone(llm, ids, params):
    return llm.variant(prefix_reuse=False).generate([ids], params)[0].token_ids


@pytest.mark.parametrize("drafter", ["none", "sparse", "lookup"])
def test_a_beginning_is_read_once(llm, fed, drafter):
    """Of the same 150 tokens the last 22 are read again (8 pages are shared); of a prompt that forks, all from it."""
    fork = [*IDS[:70], *IDS[:40]]
    right = [alone(llm, ids, SAMPLED) for ids in (IDS, fork)]
    own = llm.variant(drafter=drafter, draft_tokens=3 if drafter != "none" else None)
    for ids, expected, tokens in ((IDS, right[0], 150), (IDS, right[0], 22), (fork, right[1], 110 - 64)):
        fed.clear()
        assert own.generate([ids], SAMPLED)[0].token_ids == expected
        assert fed[0] == tokens
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages


def test_a_running_request_shares_what_it_has_read(llm, fed, monkeypatch):
    """Also of a prompt that is still being read, as far as it has come."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 50)
    right = alone(llm, IDS, GREEDY)
    engine = llm._engine
    first, second, third = (make_requests(llm.loaded, engine, IDS, GREEDY)[0] for _ in range(3))
    fed.clear()
    engine.add(first)
    engine.step()
    engine.add(second)
    engine.step()
    engine.step()
    engine.step()
    engine.add(third)
    while engine.busy:
        engine.step()
    assert [tuple(request.committer.token_ids) for request in (first, second, third)] == [right] * 3
    # 150 in three parts, then 11 steps; 102 behind 48 shared ones, and 11; 22 behind 128, and 11.
    assert sum(fed) == 150 + 102 + 22 + 3 * 11


@pytest.mark.parametrize("worth", [32, 512])
def test_requests_wait_for_one_that_reads_their_prompt(llm, fed, monkeypatch, worth):
    """Where that saves enough: the n outputs of a prompt read it once and not three times. Others do not wait."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 50)
    monkeypatch.setattr("glimpse.engine.residents._WORTH_WAITING", worth)
    params = SamplingParams(max_tokens=12, temperature=0.9, seed=2, n=3)
    right = [out.token_ids for out in llm.variant(prefix_reuse=False).generate([IDS], params)]
    other = alone(llm, IDS[::-1][:40], GREEDY)
    fed.clear()
    outs = llm.generate([IDS[::-1][:40], IDS], [GREEDY, params])
    assert [out.token_ids for out in outs] == [other, *right]
    tails = [22, 22] if worth == 32 else [150, 22]  # the last one of three rows comes late
    assert sum(fed) == 40 + 150 + sum(tails) + 4 * 11


def test_only_when_it_is_asked_for(llm, fed):
    own = llm.variant(prefix_reuse=False)
    for _ in range(2):
        fed.clear()
        own.generate([IDS], GREEDY)
        assert fed[0] == 150
    llm.generate([IDS], GREEDY)
    fed.clear()
    own.generate([IDS], GREEDY)
    assert fed[0] == 150


def test_prompt_logprobs_read_everything(llm, fed):
    params = SamplingParams(max_tokens=3, temperature=0.0, prompt_logprobs=0)
    llm.generate([IDS], GREEDY)
    fed.clear()
    assert len(llm.generate([IDS], params)[0].prompt_logprobs) == 150
    assert fed[0] == 150


def test_a_cache_that_is_full_forgets_and_stays_right(llm):
    """Many prompts in a cache of 22 pages, three at a time."""
    prompts = [[*IDS[:cut], *DRAW.choices(range(3, 300), k=30)] for cut in (0, 40, 90, 0, 90, 40, 64, 16) * 2]
    right = [alone(llm, ids, SAMPLED) for ids in prompts]
    pool = llm.loaded.pool
    taken = pool.allocate(pool.free_pages - 22, 0)
    for _ in range(2):
        assert [out.token_ids for out in llm.generate(prompts, SAMPLED)] == right
    pool.release(taken)
    assert (pool.free_pages, pool.promised) == (pool.pages, 0)


def test_remembered_pages_are_not_promised_twice(llm):
    """Of 12 pages 8 are remembered and free: a request that shares them still takes all of its 11, so it must wait."""
    pool, engine = llm.loaded.pool, llm._engine
    other = SamplingParams(max_tokens=40, temperature=0.0)
    right = [alone(llm, IDS[:20][::-1], other), alone(llm, IDS, GREEDY)]
    taken = pool.allocate(pool.free_pages - 12, 0)
    llm.generate([IDS], GREEDY)
    requests = [
        make_requests(llm.loaded, engine, ids, params)[0] for ids, params in ((IDS[:20][::-1], other), (IDS, GREEDY))
    ]
    for request in requests:
        engine.add(request)
        engine.step()
    assert pool.spare_pages >= 0
    while engine.busy:
        engine.step()
    pool.release(taken)
    assert [tuple(request.committer.token_ids) for request in requests] == right


def test_prompts_of_other_lengths_under_dynamic_rope(altered):
    folder = altered(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    llm = LLM(folder, drafter="none", pacer="fixed")
    prompts = [IDS[:90], IDS[:48], IDS[:90], IDS[:64]]
    right = [alone(llm, ids, GREEDY) for ids in prompts]
    assert [llm.generate([ids], GREEDY)[0].token_ids for ids in prompts] == right


@pytest.mark.parametrize("drafter", ["none", "lookup", "sparse"])
def test_a_long_prompt_holds_nobody_up(llm, fed, monkeypatch, drafter):
    """While 200 tokens are read in parts of 16, another request goes on as if alone: a step is never longer."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 16)
    own = llm.variant(drafter=drafter, draft_tokens=3 if drafter != "none" else None, prefix_reuse=False)
    engine = own._engine
    short = make_requests(llm.loaded, engine, IDS[:9], SamplingParams(max_tokens=60, temperature=0.0))[0]
    long = make_requests(llm.loaded, engine, [*IDS, *IDS[:50]], GREEDY)[0]
    engine.add(short)
    engine.step()
    engine.add(long)
    fed.clear()
    written = []
    while not long.committer.token_ids:
        engine.step()
        written.append(len(short.committer.token_ids))
    assert len(written) == 13, "200 tokens in 13 parts"
    assert max(fed) <= 16 + 4, "with one part of the prompt and one draft"
    gaps = [after - before for before, after in zip(written, written[4:], strict=False)]
    assert min(gaps) >= 1, "three drafts and a verification at most"
    for request in (short, long):
        engine.cancel(request)


def test_pages_are_published_when_more_has_been_read_and_when_a_request_has_ended(llm, monkeypatch):
    """Not at every step: it takes as long as the prompt has pages."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 50)
    seen, publish = [], PrefixStore.publish

    def counted(self, prompt, pages, verified):
        seen.append(verified)
        publish(self, prompt, pages, verified)

    monkeypatch.setattr(PrefixStore, "publish", counted)
    engine = llm._engine
    (request,) = make_requests(llm.loaded, engine, IDS, GREEDY)
    engine.add(request)
    while not request.finished:
        engine.step()
    assert seen == [50, 100, 150, 161]
    assert len(llm.loaded.prefixes.find(IDS)) == 8

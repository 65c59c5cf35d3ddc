"""Any mix of requests, drafts and pacing: each row as if alone and plain, and a balanced ledger."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import Noisy, RandomPacer, with_parts
from tests.trees import Trees, with_trees

from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

OPTIONS = st.fixed_dictionaries(
    {"max_tokens": st.integers(0, 14), "temperature": st.sampled_from([0.0, 0.7, 1.2]), "seed": st.integers(0, 5)},
    optional={
        "top_k": st.sampled_from([1, 5, 50]),
        "top_p": st.sampled_from([0.5, 0.95]),
        "min_p": st.just(0.05),
        "repetition_penalty": st.sampled_from([1.2, 0.9]),
        "frequency_penalty": st.sampled_from([-1.0, 0.7]),
        "stop_token_ids": st.just(tuple(range(100, 140))),
        "logit_bias": st.just({77: 5.0}),
    },
)
REQUESTS = st.lists(st.tuples(st.integers(1, 80), OPTIONS), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=3, max_context=96).variant(budget_floor=8)


_PLAIN = {}


def plainly(llm, ids, params) -> tuple[int, ...]:
    key = (tuple(ids), repr(params))
    if key not in _PLAIN:
        _PLAIN[key] = llm.generate([ids], params)[0].token_ids
    return _PLAIN[key]


@settings(max_examples=40, deadline=None)
@given(
    mix=REQUESTS,
    drafter=st.sampled_from(["sparse", "lookup", "noisy", "trees"]),
    rule=st.sampled_from(["coupled", "matched"]),
    seed=st.integers(0, 1000),
    joining=st.integers(1, 4),
    cancelled=st.integers(0, 12),
)
def test_equal_to_plain_alone(llm, mix, drafter, rule, seed, joining, cancelled):
    """Requests join a few steps apart; one may be cancelled on the way."""
    jobs = [
        (random.Random(f"{length} {place}").choices(range(3, 300), k=length), SamplingParams(**options))
        for place, (length, options) in enumerate(mix)
    ]
    right = [plainly(llm, ids, params) for ids, params in jobs]
    texts = list({tuple(ids): out for (ids, _), out in zip(jobs, right, strict=True)}.items())
    if drafter == "trees":
        fast = with_trees(llm, Trees(texts, "random", 40, 0.7, seed), RandomPacer(6, seed), acceptance=rule)
    else:
        double = Noisy(texts, 0.3, seed=seed) if drafter == "noisy" else None
        name = "lookup" if drafter == "noisy" else drafter
        fast = with_parts(llm, double, RandomPacer(6, seed), drafter=name, acceptance=rule, draft_tokens=6)
    engine = fast._engine
    requests = [make_requests(llm._loaded, engine, ids, params)[0] for ids, params in jobs]
    waiting, step = list(requests), 0
    while waiting or engine.busy:
        if waiting and step % joining == 0:
            engine.add(waiting.pop(0))
        if step == cancelled and len(requests) > 1:
            engine.cancel(requests[0])
        engine.step()
        step += 1
    for index, (request, expected) in enumerate(zip(requests, right, strict=True)):
        got = tuple(request.committer.token_ids)
        stopped = request.committer.finish_reason == "abort" and index == 0
        assert got == (expected[: len(got)] if stopped else expected)
        assert 0 <= request.speculation.accepted <= request.speculation.drafted
    pool = llm._loaded.pool
    assert (pool.free_pages, pool.promised) == (pool.pages, 0)
    assert not engine.parts.pacer.admitted
    assert len(engine.parts.rows.free_slots()) == 3

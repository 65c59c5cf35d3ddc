"""The drafters `racer`, `suffix` and `racer+suffix` through the engine: plain decoding's text, nothing left behind."""

from __future__ import annotations

import random

import pytest
from tests.engine.test_equality import PARAMS

from glimpse.engine.device.eligible import why_not_engine
from glimpse.errors import ArgumentError
from glimpse.sampling import SamplingParams

DRAFTERS = ("racer", "suffix", "racer+suffix")


def jobs():
    """Prompts that repeat themselves, with every kind of parameters; some bias makes texts repeat themselves too."""
    made = []
    for place, (name, options) in enumerate(PARAMS.items()):
        for length in (1, 3, 20, 60):
            page = random.Random(f"{name} {length}").choices(range(3, 300), k=length)
            looping = {"logit_bias": dict.fromkeys(page[:5], 9.0)} if place % 2 and length > 3 else {}
            made.append((page + page[: length // 2], SamplingParams(max_tokens=16 + length % 7, **options | looping)))
    return made


def run(llm):
    prompts, params = zip(*jobs(), strict=True)
    return llm.generate(prompts, params)


@pytest.fixture(scope="module")
def plain(tiny):
    return [tiny.generate([ids], params)[0] for ids, params in jobs()]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(("pacer", "nodes"), [("fixed", 1), ("fixed", 24), ("marginal", None), ("entropy", None)])
def test_the_text_is_plain_decodings(tiny, plain, drafter, pacer, nodes):
    llm = tiny.variant(drafter=drafter, pacer=pacer, draft_tokens=nodes)
    outputs = run(llm)
    assert [out.token_ids for out in outputs] == [out.token_ids for out in plain]
    assert [out.finish_reason for out in outputs] == [out.finish_reason for out in plain]
    if pacer == "fixed":
        assert sum(out.speculation.accepted for out in outputs) > 10
        longest = max(max(out.speculation.draft_lengths, default=0) for out in outputs)
        assert longest <= nodes if drafter == "suffix" else longest == nodes
    nothing_left(llm)


def nothing_left(llm):
    parts = llm._engine.parts
    assert not parts.drafter._sources
    assert not getattr(parts.pacer, "_states", {})
    assert (parts.pool.free_pages, parts.pool.promised) == (parts.pool.pages, 0)
    assert not parts.rows.branching


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_matched_is_exact_too(tiny, drafter):
    """Sampled text of its own, but greedy text is plain decoding's."""
    ids, params = [5, 6, 7, 8] * 9, SamplingParams(max_tokens=20, temperature=0.0)
    out = tiny.variant(drafter=drafter, pacer="fixed", acceptance="matched").generate([ids], params)[0]
    assert out.token_ids == tiny.generate([ids], params)[0].token_ids


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_is_drafted_for_alike_whoever_came_before_or_runs_beside(tiny, drafter):
    """Nothing is learned from other requests: the same drafts, counted node for node."""
    ids, params = [5, 6, 7, 8] * 9, SamplingParams(max_tokens=20, temperature=0.6, seed=3)

    def spoken(llm, prompts):
        return llm.generate(prompts, params)[0].speculation.to_json()

    llm = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=24)
    first = spoken(llm, [ids])
    assert spoken(llm, [ids, [9, *ids], [5, 6] * 20]) == first
    assert spoken(llm, [ids]) == first


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_draft_tokens_bound_the_nodes_and_rejection_is_refused(tiny, drafter):
    parts = tiny.variant(drafter=drafter, pacer="marginal", draft_tokens=5)._engine.parts
    assert (parts.drafter.budget, parts.rows.max_draft, parts.drafter.name) == (5, 5, drafter)
    assert tiny.variant(drafter=drafter, pacer="marginal")._engine.parts.drafter.budget == 64
    assert tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=0)._engine.parts.pacer.most == 0
    with pytest.raises(ArgumentError, match="'coupled' and 'matched' take them"):
        tiny.variant(drafter=drafter, acceptance="rejection")
    assert why_not_engine(parts) is None
    many = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=100)._engine.parts
    assert why_not_engine(many) == "drafts of 100 tokens, where 63 are the most"


def test_prompts_logits_change_drafts_and_nothing_else(tiny):
    ids, params = random.Random(1).choices(range(3, 300), k=200), SamplingParams(max_tokens=20, temperature=0.0)
    with_them, without = (tiny.variant(drafter="racer", pacer="fixed", draft_tokens=24) for _ in range(2))
    with_them._engine.parts.drafter.wants_prompt_topk = True
    outputs = [llm.generate([ids], params)[0] for llm in (with_them, without, tiny)]
    assert outputs[0].token_ids == outputs[1].token_ids == outputs[2].token_ids
    assert outputs[0].speculation.drafted > outputs[1].speculation.drafted

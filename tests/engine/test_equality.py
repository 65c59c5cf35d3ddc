"""Whatever drafts, paces or shares the batch: the text equals plain decoding, token for token."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
import torch
from tests.doubles import AlwaysWrong, Empty, Fixed, Noisy, Oracle, Texts, with_parts

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

LENGTHS = (1, 2, 5, 17, 100, 300)
NEW = 14
SAMPLED = {"temperature": 0.8, "seed": 11}
PARAMS = {
    "greedy": {"temperature": 0.0},
    "sampled": SAMPLED,
    "cut": SAMPLED | {"top_k": 20, "top_p": 0.9, "min_p": 0.02},
    "penalties": SAMPLED | {"repetition_penalty": 1.2, "frequency_penalty": 0.4, "presence_penalty": 0.3},
    "greedy penalties": {"temperature": 0.0, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
    "masks": SAMPLED
    | {
        "logit_bias": {7: 4.0, 9: -3.0},
        "bad_words": [[7, 8], [40], [9, 7, 7]],
        "min_tokens": 9,
        "stop_token_ids": [30],
    },
}
DRAFTERS = ("none", "sparse", "lookup", "oracle", "noisy", "fixed", "empty", "wrong")


def prompt(length: int, seed: object = 0) -> list[int]:
    """Random ids with a repeated stretch, so that lookup finds something."""
    draw = random.Random(f"{length} {seed}")
    ids = [draw.randrange(3, 300) for _ in range(length)]
    return ids if length < 17 else ids[: length - 8] + ids[3:11]


def jobs() -> list[tuple[list[int], SamplingParams]]:
    """Every prompt with every kind of parameters."""
    return [
        (prompt(length, name), SamplingParams(max_tokens=NEW, **options))
        for length in LENGTHS
        for name, options in PARAMS.items()
    ]


@pytest.fixture(scope="module")
def plain(tiny):
    """The texts of all jobs, each decoded plainly and alone."""
    return [tiny.generate(ids, params)[0].token_ids for ids, params in jobs()]


def variant(llm, drafter: str, texts, **options):
    """An LLM with a drafter of `DRAFTERS`; `texts` are what the doubles replay."""
    doubles = {
        "oracle": lambda: Oracle(texts),
        "noisy": lambda: Noisy(texts, 0.3),
        "wrong": lambda: AlwaysWrong(texts),
        "fixed": lambda: Fixed([5, 6, 5, 6, 7], [9], [], [10] * 20),
        "empty": Empty,
    }
    if drafter in doubles:
        return with_parts(llm, doubles[drafter](), **options)
    return llm.variant(drafter=drafter, **options)


@cache
def texts_of(plain: tuple) -> Texts:
    return [(ids, out) for (ids, _), out in zip(jobs(), plain, strict=True)]


def run(llm) -> tuple[list[tuple[int, ...]], dict[str, int]]:
    """All jobs together: their tokens, and what speculation did over all of them."""
    prompts, params = zip(*jobs(), strict=True)
    outputs = llm.generate(prompts, params)
    counts = ("drafted", "accepted", "rounds", "plain_steps", "draft_steps")
    return [out.token_ids for out in outputs], {
        name: sum(getattr(o.speculation, name) for o in outputs) for name in counts
    }


def grid() -> list[tuple[str, str, int]]:
    """Drafter, pacer and draft length: all that differ (how `entropy` paces doubles does not depend on which it is)."""
    lengths = {name: (1, 4, 8, 16) if name not in ("none", "empty") else (8,) for name in DRAFTERS}
    fixed = [(name, "fixed", length) for name in DRAFTERS for length in lengths[name]]
    real = [(name, "entropy", length) for name in ("sparse", "lookup") for length in (1, 4, 8, 16)]
    return fixed + real + [(name, "entropy", 16) for name in ("none", "noisy", "oracle", "wrong")]


@pytest.mark.parametrize(("drafter", "pacer", "draft_tokens"), grid())
def test_coupled_equals_plain(tiny, plain, drafter, pacer, draft_tokens):
    llm = variant(tiny, drafter, texts_of(tuple(plain)), pacer=pacer, draft_tokens=draft_tokens)
    tokens, counts = run(llm)
    assert tokens == plain
    check_counts(drafter, pacer, counts)


def check_counts(drafter: str, pacer: str, counts: dict[str, int]) -> None:
    """The doubles do what they are called, and the sparse drafter is right and wrong: else equality proves nothing."""
    drafted, accepted = counts["drafted"], counts["accepted"]
    assert 0 <= accepted <= drafted
    if drafter in ("none", "empty"):
        assert drafted == 0
    elif pacer == "fixed":
        assert drafted > 100 or drafter == "lookup"
    if drafter == "oracle":
        assert accepted == drafted
    if drafter == "wrong":
        assert accepted == 0
    if drafter in ("sparse", "noisy") and pacer == "fixed":
        assert 0.1 * drafted < accepted < 0.95 * drafted
    assert (counts["draft_steps"] > 0) == (drafter == "sparse" and pacer == "fixed") or pacer == "entropy"


@pytest.mark.parametrize("drafter", ["sparse", "noisy", "lookup", "fixed"])
def test_matched_equals_plain(tiny, plain, drafter):
    """The target's own noise is the plain path's, whatever the draft's."""
    llm = variant(tiny, drafter, texts_of(tuple(plain)), acceptance="matched", pacer="fixed", draft_tokens=5)
    assert run(llm)[0] == plain


def test_rejection_is_greedy_where_the_request_is(tiny, plain):
    llm = tiny.variant(drafter="sparse", acceptance="rejection", pacer="fixed", draft_tokens=5)
    tokens, counts = run(llm)
    greedy = [index for index, (_, params) in enumerate(jobs()) if params.temperature == 0]
    assert [tokens[i] for i in greedy] == [plain[i] for i in greedy]
    assert counts["accepted"] < counts["drafted"]


def test_plain_greedy_equals_transformers(tiny, tiny_folder):
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    for length in LENGTHS:
        ids = prompt(length)
        right = model.generate(
            torch.tensor([ids]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        out = tiny.generate(ids, SamplingParams(max_tokens=40, temperature=0.0))[0]
        assert list(out.token_ids) == right[0, length:].tolist()


def test_texts_vary(plain):
    """A model that repeats itself would hide faults (`cases.md`, lesson 1)."""
    distinct = [len(set(out)) for out in plain]
    assert sum(distinct) / len(distinct) > 0.6 * NEW


@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_a_budget_of_the_whole_context_is_always_right(tiny, draft_tokens):
    """A03: then the draft is the target, so all of it is accepted, greedy and (coupled) sampled."""
    llm = tiny.variant(drafter="sparse", budget=1.0, pacer="fixed", draft_tokens=draft_tokens)
    for options in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}):
        for length in (1, 17, 300):
            out = llm.generate(prompt(length), SamplingParams(max_tokens=60, **options))[0]
            assert out.speculation.drafted > 0
            assert out.speculation.acceptance_rate == 1.0
            assert out.token_ids == tiny.generate(prompt(length), SamplingParams(max_tokens=60, **options))[0].token_ids


@pytest.mark.parametrize("length", [35, 36, 37, 144])
def test_sparse_is_dense_up_to_its_budget_and_not_beyond(tiny, length):
    """A77: 4 sinks and 32 recent ones are read at least; up to 36 positions that is everything."""
    llm = tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=1, budget=0.01, budget_floor=0)
    params = SamplingParams(max_tokens=3, temperature=1.0)
    rates = [
        llm.generate(prompt(length, seed), replace(params, seed=seed))[0].speculation.acceptance_rate
        for seed in range(12)
    ]
    assert (rates == [1.0] * 12) == (length <= 36) or length == 37


@pytest.mark.parametrize("drafter", ["none", "sparse", "noisy"])
def test_prefill_in_chunks_changes_nothing(tiny, plain, drafter, monkeypatch):
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 7)
    llm = variant(tiny, drafter, texts_of(tuple(plain)), pacer="fixed", draft_tokens=4)
    assert run(llm)[0] == plain


@pytest.mark.parametrize("drafter", ["none", "sparse", "lookup"])
def test_pages_in_any_order_change_nothing(tiny, plain, drafter):
    """Every other page is taken, so no sequence has two pages that lie together."""
    pool = tiny._loaded.pool
    taken = [page for page in pool.allocate(pool.free_pages, 0) if page % 2]
    pool.release([page for page in range(pool.pages) if page % 2 == 0])
    try:
        assert run(tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=6))[0] == plain
    finally:
        pool.release(taken)
    assert pool.free_pages == pool.pages


@pytest.mark.parametrize("drafter", ["none", "sparse", "lookup"])
def test_pinned_prompts_change_nothing(tiny, drafter):
    llm = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=6)
    for options in PARAMS.values():
        ids, params = prompt(300), SamplingParams(max_tokens=NEW, **options)
        right = tiny.generate([ids, ids[:200], [*ids, 5, 6, 7]], params)
        with tiny.pinned(ids):
            assert tiny._loaded.pool.free_pages < tiny._loaded.pool.pages
            got = llm.generate([ids, ids[:200], [*ids, 5, 6, 7]], params)
        assert [out.token_ids for out in got] == [out.token_ids for out in right]
    assert tiny._loaded.pool.free_pages == tiny._loaded.pool.pages


def test_the_checkpoints_defaults_hold_on_both_paths(altered):
    """A06: repetition penalty and top_k of generation_config.json, and they are told."""
    folder = altered({"repetition_penalty": 1.3, "top_k": 20, "do_sample": True})
    llm = LLM(folder, drafter="sparse", pacer="fixed", draft_tokens=4, budget_floor=8)
    result = llm.compare(prompt(100), SamplingParams(max_tokens=30, seed=2))
    assert result.identical
    for out in (result.baseline, result.speculative):
        assert (out.settings["repetition_penalty"], out.settings["top_k"]) == (1.3, 20)
    neutral = llm.generate(prompt(100), SamplingParams(max_tokens=30, seed=2, repetition_penalty=1.0, top_k=0))[0]
    assert neutral.token_ids != result.baseline.token_ids


def test_the_tiny_checkpoint_has_no_end_of_text(tiny):
    """A25: none is configured, nothing breaks, outputs have full length."""
    assert tiny._loaded.checkpoint.spec.eos_token_ids == ()

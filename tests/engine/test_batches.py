"""Many requests at once: rows that join and leave, wait, are cancelled, break; and nothing is left behind."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from tests.doubles import Empty, Fixed, Noisy, with_parts

from glimpse.engine.submit import make_requests
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

LENGTHS = (3, 60, 11, 1, 200, 8, 33, 2, 90, 5, 17, 120, 40, 4, 70, 1)
DRAW = random.Random(1)
PROMPTS = [
    DRAW.choices(range(3, 300), k=length) for length in (3, 60, 11, 1, 200, 8, 33, 2, 90, 5, 17, 120, 40, 4, 70, 1)
]
LIMITS = [5, 30, 12, 1, 9, 25, 3, 30, 2, 17, 0, 11, 8, 22, 4, 13]
SAMPLED = SamplingParams(temperature=0.9, top_k=40, repetition_penalty=1.1)
PARAMS = [replace(SAMPLED, max_tokens=limit, seed=seed) for seed, limit in enumerate(LIMITS)]
PARAMS[2] = SamplingParams(max_tokens=12, temperature=0.0)


@pytest.fixture(scope="module")
def plain(tiny):
    """Each request alone, plainly."""
    return [tiny.generate([ids], params)[0].token_ids for ids, params in zip(PROMPTS, PARAMS, strict=True)]


@pytest.fixture
def few(tiny_folder):
    """An LLM of three rows."""
    return LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=4, budget_floor=8, max_batch_size=3)


def variants(llm, texts):
    """Every kind of drafter over one LLM."""
    yield llm
    yield llm.variant(pacer="entropy")
    yield llm.variant(drafter="lookup")
    yield llm.variant(drafter="none")
    yield with_parts(llm, Noisy(texts, 0.4), draft_tokens=6)


def nothing_left(llm) -> None:
    """Pages, promises, rows, and what drafter, pacer, sampler and engine keep for them."""
    engine, pool = llm._engine, llm._loaded.pool
    parts = engine.parts
    assert (pool.free_pages, pool.promised, int(pool._wished.sum())) == (pool.pages, 0, 0)
    assert len(parts.rows.free_slots()) == parts.rows.capacity
    assert not engine.busy
    assert not engine._settler._book._laws
    assert not engine._planner.halted
    assert not any(parts.sampler.params)
    assert not any(processor.states for processor in parts.sampler._processors)
    for part, name in ((parts.drafter, "_states"), (parts.drafter, "_histories"), (parts.pacer, "_states")):
        assert not getattr(part, name, {})
    assert not getattr(parts.drafter, "admitted", {})


def test_more_requests_than_rows(few, plain):
    """A37, A38, A40, A22: unequal prompts, limits and seeds; each is as if alone."""
    texts = list(zip(PROMPTS, plain, strict=True))
    for llm in variants(few, texts):
        outs = llm.generate(PROMPTS, PARAMS)
        assert [out.token_ids for out in outs] == plain
        nothing_left(llm)


def test_rows_of_a_step_are_the_drafts_and_one(few, plain, monkeypatch):
    """A32, A12, A40: verify rows are as long as their own draft and one; -1 never comes out."""
    texts = list(zip(PROMPTS, plain, strict=True))
    llm = with_parts(few, Noisy(texts, 0.5), draft_tokens=5)
    planned = llm._engine._planner.plan
    seen = []

    def plan(running):
        made = planned(running)
        rows = llm._engine.parts.rows
        for spec in made.full:
            if int(rows.committed_len[spec.slot] - rows.verified_len[spec.slot]) == 1:
                assert spec.count == int(rows.draft_len[spec.slot]) + 1 <= 6
                seen.append(spec.count)
        assert len(made.specs) <= 3
        return made

    monkeypatch.setattr(llm._engine._planner, "plan", plan)
    outs = llm.generate(PROMPTS, PARAMS)
    assert {1, 6} <= set(seen)
    assert min(token for out in outs for token in out.token_ids) >= 0


@pytest.mark.parametrize("drafts", [[[]], [[], [5, 6, 7, 8]], [[9], [], []]])
def test_empty_drafts_in_between(tiny, plain, drafts):
    """A32."""
    llm = with_parts(tiny, Fixed(*drafts), draft_tokens=4)
    assert [out.token_ids for out in llm.generate(PROMPTS, PARAMS)] == plain
    assert [out.token_ids for out in with_parts(tiny, Empty()).generate(PROMPTS, PARAMS)] == plain


def test_prompts_of_growing_length_one_after_another(few, tiny):
    """A41, A35: nothing is sized by the first; the same request drafts alike each time."""
    greedy = SamplingParams(max_tokens=20, temperature=0.0)
    for drafter in ("sparse", "lookup"):
        llm = few.variant(drafter=drafter)
        for length in (8, 200, 8, 480):
            ids = random.Random(length).choices(range(3, 300), k=length)
            assert llm.generate([ids], greedy)[0].token_ids == tiny.generate([ids], greedy)[0].token_ids
        loop = replace(greedy, logit_bias={7: 8.0})
        runs = [llm.generate([[7] * 60], loop)[0] for _ in range(5)]
        assert len({(out.token_ids, out.speculation.drafted, out.speculation.accepted) for out in runs}) == 1
        assert runs[0].speculation.drafted > 0


@pytest.mark.parametrize("victim", [0, 1, 4])
def test_cancelling_at_any_step(few, plain, victim):
    """A59: rows leave in any phase (waiting, prefill, draft, verify); the others do not notice, up to their end."""
    texts = list(zip(PROMPTS, plain, strict=True))
    limited = [replace(params, max_tokens=min(10, params.max_tokens)) for params in PARAMS[:6]]
    for llm in variants(few, texts):
        for steps in (0, 1, 2, 4, 7):
            engine = llm._engine
            requests = [
                request
                for ids, params in zip(PROMPTS[:6], limited, strict=True)
                for request in make_requests(llm._loaded, engine, ids, params)
            ]
            for request in requests:
                engine.add(request)
            for _ in range(steps):
                engine.step()
            engine.cancel(requests[victim])
            engine.cancel(requests[victim])
            while engine.busy:
                engine.step()
            for index, request in enumerate(requests):
                got = tuple(request.committer.token_ids)
                right = plain[index][: limited[index].max_tokens]
                assert got == right or (index == victim and got == right[: len(got)])
            nothing_left(llm)


def until(engine, met):
    """Steps until something holds."""
    for _ in range(30):
        if met():
            return
        engine.step()
    raise AssertionError("it never came to that")


def second_after(llm, leave):
    """A request that was sampled, alone in the one row, after another has left it by `leave(engine)`."""
    engine = llm._engine
    first, second = (make_requests(llm._loaded, engine, PROMPTS[at], PARAMS[7])[0] for at in (1, 4))
    engine.add(first)
    leave(engine)
    engine.cancel(first)
    nothing_left(llm)
    engine.add(second)
    while engine.busy:
        engine.step()
    return list(second.committer.token_ids), second.speculation


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_who_leaves_while_drafting_takes_the_draft_along(tiny_folder, rule):
    """Half a draft, the laws it was drawn from and where it halted are nobody else's."""
    llm = LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=4, acceptance=rule, max_batch_size=1)
    rows, engine = llm._engine.parts.rows, llm._engine
    right, counts = second_after(llm, lambda engine: None)
    assert counts.drafted > 8
    after = second_after(llm, lambda engine: until(engine, lambda: rows.draft_len[0] == 2))
    assert (after[0], after[1].drafted) == (right, counts.drafted)

    def halt(engine):
        until(engine, lambda: rows.draft_len[0] == 2)
        engine._planner.halted.add(0)

    after = second_after(llm, halt)
    assert (after[0], after[1].drafted) == (right, counts.drafted)
    assert not engine.busy


def test_prefill_in_chunks_beside_decoding_rows(few, plain, monkeypatch):
    """Prompts are read in parts of 16 or so while other rows draft and verify."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 16)
    for llm in variants(few, list(zip(PROMPTS, plain, strict=True))):
        assert [out.token_ids for out in llm.generate(PROMPTS, PARAMS)] == plain


def test_a_page_ledger_over_many_requests(tiny_folder):
    """A49, A48, A66: 150 requests that end by limit, stop, cancel; the pages are back after each."""
    llm = LLM(tiny_folder, max_batch_size=2, max_context=64).variant(budget_floor=8)
    noisy = with_parts(llm, Fixed([5, 6, 7], [8] * 20, []), draft_tokens=20)
    draw = random.Random(3)
    for turn in range(150):
        ids = draw.choices(range(3, 300), k=draw.randrange(1, 40))
        params = SamplingParams(max_tokens=draw.randrange(1, 24), seed=turn, stop_token_ids=list(range(3, 30)))
        stream = noisy.stream(ids, params)
        for _ in range(draw.choice((1, 3, 100))):
            if next(stream, None) is None:
                break
        stream.close()
        nothing_left(noisy)


def test_pages_are_taken_for_drafts_and_given_back(tiny_folder):
    """A48: a draft of 20 at length 15 needs three pages of 16; after rejection one or two remain."""
    llm = LLM(tiny_folder, max_batch_size=1, max_context=64)
    wrong = with_parts(llm, Fixed([299] * 20), draft_tokens=20)
    engine, pool = wrong._engine, llm._loaded.pool
    (request,) = make_requests(llm._loaded, engine, PROMPTS[1][:15], SamplingParams(max_tokens=40, temperature=0.0))
    engine.add(request)
    held = []
    while engine.busy:
        engine.step()
        held.append(pool.pages - pool.free_pages)
    lengths = [15 + n for n in range(len(held))]
    assert held == [-(-length // 16) for length in lengths[:-1]] + [0]


def broken(llm, when) -> None:
    """Makes the logits NaN of every row whose tokens satisfy `when(tokens of the forward)`."""
    decoder = llm._engine.parts.decoder
    forward = decoder.forward

    def spoiled(tokens, positions, lengths, attend):
        hidden = forward(tokens, positions, lengths, attend)
        return torch.where(torch.tensor([when(token) for token in tokens.tolist()])[:, None], torch.nan, hidden)

    llm._engine.parts.decoder.forward = spoiled


def test_what_a_request_that_failed_has_read_is_not_shared(tiny_folder):
    """Its keys and values may be what was wrong with it."""
    for wrong in (False, True):
        llm = LLM(tiny_folder, drafter="none", max_batch_size=1)
        broken(llm, lambda token, wrong=wrong: wrong and token == PROMPTS[1][-1])
        (request,) = make_requests(llm._loaded, llm._engine, PROMPTS[1], SamplingParams(max_tokens=1, seed=1))
        llm._engine.add(request)
        while llm._engine.busy:
            llm._engine.step()
        assert (request.error is not None) is wrong
        assert (llm._loaded.prefixes.find(PROMPTS[1]) == []) is wrong


@pytest.mark.parametrize("drafter", ["none", "sparse", "lookup"])
@pytest.mark.parametrize("acceptance", ["coupled", "rejection"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_numbers_that_are_none_end_their_row_alone(tiny_folder, monkeypatch, drafter, acceptance, temperature):
    """A53: an error that names the step; the other rows go on; never an endless token 0."""
    llm = LLM(tiny_folder, acceptance=acceptance, pacer="fixed", max_batch_size=3)
    llm = llm.variant(drafter=drafter, draft_tokens=3)
    params = [SamplingParams(max_tokens=12, temperature=temperature, seed=seed) for seed in range(3)]
    right = [llm.generate([ids], own)[0].token_ids for ids, own in zip(PROMPTS[:3], params, strict=True)]
    poison = next(token for token in right[1][3:] if token not in (*right[0], *right[2], *PROMPTS[0], *PROMPTS[2]))
    engine = llm._engine
    broken(llm, lambda token: token == poison)
    requests = [make_requests(llm._loaded, engine, ids, own)[0] for ids, own in zip(PROMPTS, params, strict=False)]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    assert [tuple(request.committer.token_ids) for request in requests[::2]] == right[::2]
    if acceptance == "rejection" and temperature and drafter != "none":
        # The draft that is dropped takes its noise along: another text of the same law, perhaps without the poison.
        return nothing_left(llm)
    written = tuple(requests[1].committer.token_ids)
    assert written == right[1][: len(written)]
    assert 0 < len(written) <= right[1].index(poison) + 1
    assert str(requests[1].error).startswith("step ")
    assert "finite" in str(requests[1].error)
    nothing_left(llm)
    with pytest.raises(GlimpseError, match="finite"):
        llm.generate([PROMPTS[1]], params[1])
    return nothing_left(llm)


def test_what_was_drafted_in_vain_may_be_no_number(tiny_folder):
    """Plain decoding never feeds the wrong tokens of a draft, so what they give cannot end a row."""
    llm = LLM(tiny_folder, drafter="none", pacer="fixed")
    greedy = SamplingParams(max_tokens=20, temperature=0.0)
    right = llm.generate([PROMPTS[1]], greedy)[0].token_ids
    poison = next(token for token in range(300) if token not in (*right, *PROMPTS[1]))
    broken(llm, lambda token: token == poison)
    fast = with_parts(llm, Fixed([poison, poison], [right[1], poison]), draft_tokens=2)
    out = fast.generate([PROMPTS[1]], greedy)[0]
    assert out.token_ids == right
    assert out.speculation.drafted > 10


def test_a_draft_that_is_not_a_number_ends_the_draft_only(tiny_folder, monkeypatch):
    """A53: NaN in draft rows alone: the draft stops there, the text stays plain."""
    llm = LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=4, budget_floor=8)
    greedy = SamplingParams(max_tokens=20, temperature=0.0)
    right = llm.variant(drafter="none").generate([PROMPTS[1]], greedy)[0].token_ids
    draft = llm._engine._settler._book.extend
    turns = iter(range(1000))

    def extend(slots, logits):
        return draft(slots, logits * (torch.nan if next(turns) % 3 == 2 else 1.0))

    monkeypatch.setattr(llm._engine._settler._book, "extend", extend)
    out = llm.generate([PROMPTS[1]], greedy)[0]
    assert out.token_ids == right
    assert set(out.speculation.draft_lengths) == {2} or 2 in out.speculation.draft_lengths
    nothing_left(llm)


def transformers_greedy(folder, ids) -> list[int]:
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    out = model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0)
    return out[0, len(ids) :].tolist()


@pytest.mark.parametrize("crossing", [20, 31, 33, 60])
def test_dynamic_rope_past_its_length(altered, crossing):
    """A73, A74: blocks that cross the trained length of 32; a short answer is the same before and after a long one."""
    folder = altered(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    llm = LLM(folder, drafter="sparse", pacer="fixed", draft_tokens=6, budget_floor=8)
    plain = llm.variant(drafter="none")
    greedy = SamplingParams(max_tokens=40, temperature=0.0)
    ids = PROMPTS[4][:crossing]
    right = plain.generate([ids], greedy)[0].token_ids
    assert list(right) == transformers_greedy(folder, ids)
    short = llm.generate([PROMPTS[2]], greedy)[0].token_ids
    for drafter in ("sparse", "lookup"):
        assert llm.variant(drafter=drafter).generate([ids], greedy)[0].token_ids == right
    assert with_parts(llm, Noisy([(ids, right)], 0.3), draft_tokens=5).generate([ids], greedy)[0].token_ids == right
    llm.generate([PROMPTS[11][:100]], greedy)
    assert llm.generate([PROMPTS[2]], greedy)[0].token_ids == short

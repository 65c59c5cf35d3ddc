"""Where an output ends: limits, end-of-text tokens, stops; with drafts that reach past the end or propose it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.doubles import AlwaysWrong, Fixed, Noisy, Oracle, with_parts

from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

IDS = random.Random(9).choices(range(3, 300), k=60)
GREEDY = SamplingParams(max_tokens=40, temperature=0.0)


@pytest.fixture(scope="module")
def text(tiny):
    """The plain greedy continuation of IDS: 40 tokens, the first 13 all different."""
    out = tiny.generate(IDS, GREEDY)[0].token_ids
    assert len(set(out[:13])) == 13
    return out


@pytest.fixture(autouse=True)
def ledger(tiny):
    """Every test gives back every page and promise."""
    yield
    pool = tiny._loaded.pool
    assert (pool.free_pages, pool.promised) == (pool.pages, 0)


def oracle(llm, text, draft_tokens):
    return with_parts(llm, Oracle([(IDS, text)]), draft_tokens=draft_tokens)


@pytest.mark.parametrize("limit", [1, 2, 3, 13])
@pytest.mark.parametrize("draft_tokens", [1, 4, 16])
def test_max_tokens_is_exact(tiny, text, limit, draft_tokens):
    """A05, A29: the first token is the prefill's own; a draft never overshoots."""
    for llm in (
        oracle(tiny, text, draft_tokens),
        tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=draft_tokens),
        tiny.variant(drafter="lookup", pacer="fixed", draft_tokens=draft_tokens),
    ):
        out = llm.generate(IDS, replace(GREEDY, max_tokens=limit))[0]
        assert (out.token_ids, out.finish_reason) == (text[:limit], "length")
        assert out.speculation.accepted < limit


def test_no_tokens_asked_for_need_no_forward(tiny, text):
    """A30."""
    llm = oracle(tiny, text, 4)
    out = llm.generate(IDS, replace(GREEDY, max_tokens=0))[0]
    assert (out.token_ids, out.text, out.finish_reason, out.usage.completion_tokens) == ((), "", "length", 0)
    assert llm._engine.steps == 0


@pytest.mark.parametrize("limit", [-1, None])
def test_without_a_limit_it_goes_to_the_end_of_the_context(tiny_folder, limit):
    """A30, A25: no end of text is configured."""
    llm = LLM(tiny_folder, drafter="lookup", pacer="fixed", draft_tokens=7, max_context=100)
    out = llm.generate(IDS, replace(GREEDY, max_tokens=limit))[0]
    plain = llm.variant(drafter="none").generate(IDS, replace(GREEDY, max_tokens=limit))[0]
    assert out.token_ids == plain.token_ids
    assert (len(out.token_ids), out.finish_reason) == (40, "length")


@pytest.mark.parametrize("drafter", ["sparse", "lookup", "wrong"])
def test_the_context_limit(tiny_folder, drafter):
    """A42: prompts of 55 to 64 tokens in a context of 64, with drafts of 5; 65 is refused."""
    llm = LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=5, max_context=64, budget_floor=8)
    plain = llm.variant(drafter="none")
    fast = llm.variant(drafter=drafter) if drafter != "wrong" else with_parts(llm, Fixed([9] * 9), draft_tokens=5)
    prompts = [(IDS + IDS)[:length] for length in range(55, 65)]
    ten = replace(GREEDY, max_tokens=10)
    outs = fast.generate(prompts, ten)
    assert [out.token_ids for out in outs] == [plain.generate(ids, ten)[0].token_ids for ids in prompts]
    assert [len(out.token_ids) for out in outs] == [min(10, 64 - length) for length in range(55, 65)]
    assert {out.finish_reason for out in outs} == {"length"}
    with pytest.raises(ArgumentError, match=r"65 .*64"):
        fast.generate([[5] * 65], ten)


@pytest.mark.parametrize("place", range(1, 10))
def test_end_of_text_in_any_slot_of_a_block(altered, text, place):
    """A23, A05: nothing after it, in tokens, text, stream, usage or counts, wherever in the block it falls."""
    llm = LLM(altered(eos_token_id=text[place - 1]), drafter="none", pacer="fixed")
    for draft_tokens in (4, 8):
        fast = oracle(llm, text, draft_tokens)
        (*_, last) = chunks = list(fast.stream(IDS, GREEDY))
        out = last.output
        assert (out.token_ids, out.finish_reason, out.stop_reason) == (text[:place], "stop", None)
        assert sum((chunk.token_ids for chunk in chunks), ()) == out.token_ids
        assert "".join(chunk.text for chunk in chunks) == out.text
        assert out.usage.completion_tokens == place
        assert out.speculation.accepted <= place
        assert out.token_ids == llm.generate(IDS, GREEDY)[0].token_ids


def test_a_drafted_end_of_text_ends_nothing_by_itself(altered, tiny, text):
    """A24."""
    eos = next(token for token in range(3, 300) if token not in text)
    llm = LLM(altered(eos_token_id=eos), drafter="none", pacer="fixed")
    assert with_parts(llm, Fixed([eos]), draft_tokens=1).generate(IDS, GREEDY)[0].token_ids == text
    assert with_parts(llm, Fixed([text[1], eos, eos]), draft_tokens=3).generate(IDS, GREEDY)[0].token_ids == text


@pytest.mark.parametrize("source", ["config", "generation"])
@pytest.mark.parametrize("ignored", [{}, {"ignore_eos": True}])
@pytest.mark.parametrize("least", [{}, {"min_tokens": 10}])
def test_every_end_of_text_token_counts(altered, text, ignored, least, source):
    """A20, A26: each id ends, ignore_eos ignores all, min_tokens masks all, in drafts as in plain decoding."""
    ids = [text[6], text[3]]
    folder = altered(eos_token_id=ids) if source == "config" else altered({"eos_token_id": ids, "do_sample": True})
    llm = LLM(folder, drafter="none", pacer="fixed")
    params = replace(GREEDY, **ignored, **least)
    plain = llm.generate(IDS, params)[0].token_ids
    if least:
        assert not set(plain[:10]) & set(ids)
    else:
        assert plain == (text if ignored else text[:4])
    for draft_tokens in (1, 5, 12):
        assert oracle(llm, text, draft_tokens).generate(IDS, params)[0].token_ids == plain
        assert oracle(llm, plain, draft_tokens).generate(IDS, params)[0].token_ids == plain


def test_stops_through_the_engine(tiny, text):
    """A27: a stop inside the limit ends it; beyond the limit it is the limit that does."""
    fast = oracle(tiny, text, 9)
    stop = replace(GREEDY, stop_token_ids=[text[3]])
    out = fast.generate(IDS, replace(stop, max_tokens=7))[0]
    assert (out.token_ids, out.finish_reason, out.stop_reason) == (text[:4], "stop", text[3])
    out = fast.generate(IDS, replace(GREEDY, max_tokens=7, stop_token_ids=[text[8]]))[0]
    assert (out.token_ids, out.finish_reason) == (text[:7], "length")
    shown = tiny.generate(IDS, GREEDY)[0].text
    word = shown[3:5]
    out = fast.generate(IDS, replace(GREEDY, stop=[word]))[0]
    assert (out.text, out.finish_reason, out.stop_reason) == (shown[: shown.index(word)], "stop", word)
    assert out.token_ids == tiny.generate(IDS, replace(GREEDY, stop=[word]))[0].token_ids


def test_one_wrong_token_is_never_accepted(tiny, text):
    """A04."""
    out = with_parts(tiny, AlwaysWrong([(IDS, text)]), draft_tokens=1).generate(IDS, GREEDY)[0]
    assert out.token_ids == text
    assert out.speculation.acceptance_rate == 0
    assert out.speculation.rounds == 38  # the prefill gives one token, and the last one has no room for a draft


def test_penalties_see_accepted_tokens_of_their_own_block(tiny):
    """A15: only two tokens may come, so penalties matter at once; the text is the plain one, whatever the block."""
    two = replace(GREEDY, suppress_tokens=[token for token in range(300) if token not in (40, 41)])
    texts = set()
    for penalty in (-2.0, 0.0, 2.0):
        params = replace(two, frequency_penalty=penalty)
        plain = tiny.generate(IDS, params)[0].token_ids
        texts.add(plain)
        for draft in ([40] * 4, [40, 41, 40, 41], [41] * 4):
            assert with_parts(tiny, Fixed(draft), draft_tokens=4).generate(IDS, params)[0].token_ids == plain
    assert len(texts) == 3


def test_a_bad_word_in_any_place_of_a_block(tiny, text):
    """A18: three tokens of the greedy text; the third never follows the first two, wherever the block begins."""
    params = replace(GREEDY, bad_words=[list(text[4:7])])
    plain = tiny.generate(IDS, params)[0].token_ids
    assert plain[:6] == text[:6]
    assert plain[6] != text[6]
    for draft_tokens in range(1, 10):
        assert oracle(tiny, text, draft_tokens).generate(IDS, params)[0].token_ids == plain


def test_a_suppressed_token_may_be_drafted_but_counts_as_rejected(tiny):
    """A19, A16: lookup proposes it out of the prompt; it never comes."""
    loop = [50, 51, 52] * 10
    params = SamplingParams(max_tokens=30, temperature=0.0, suppress_tokens=[51], logit_bias={50: 6.0, 52: 6.0})
    plain = tiny.generate(loop, params)[0]
    out = tiny.variant(drafter="lookup", pacer="fixed", draft_tokens=4).generate(loop, params)[0]
    assert out.token_ids == plain.token_ids
    assert 51 not in out.token_ids
    fixed = with_parts(tiny, Fixed([51]), draft_tokens=1).generate(loop, params)[0]
    assert fixed.token_ids == plain.token_ids
    assert fixed.speculation.acceptance_rate == 0 < fixed.speculation.drafted


def test_counts_of_a_known_run(tiny, text):
    """A61 (V5): K = 4, three rounds that accept 4, 0 and 2: mean length 3, 9 tokens emitted after the first."""
    wrong = [(token + 1) % 300 for token in text]
    drafts = [text[1:5], [wrong[6]] * 4, [*text[7:9], wrong[9], 9]]
    llm = with_parts(tiny, Fixed(*drafts, *[[]] * 20), draft_tokens=4)
    chunks = list(llm.stream(IDS, replace(GREEDY, max_tokens=14)))
    out, done = chunks[-1].output, chunks[-1].output.speculation
    assert out.token_ids == text[:14]
    assert [len(chunk.token_ids) for chunk in chunks] == [1, 5, 1, 3, 1, 1, 1, 1]
    assert (done.rounds, done.accepted, done.drafted, done.plain_steps) == (3, 6, 12, 4)
    assert (done.acceptance_rate, done.mean_accepted_length, done.emitted - done.plain_steps) == (0.5, 3.0, 9)
    assert done.acceptance_by_position == [2 / 3, 2 / 3, 1 / 3, 1 / 3]


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_counts_add_up(tiny, text, p):
    """A61-A63: rates within bounds; tokens of rounds, plain steps and the prefill are the tokens returned."""
    for limit in (5, 17, 40):
        out = with_parts(tiny, Noisy([(IDS, text)], p), draft_tokens=6).generate(
            IDS, replace(GREEDY, max_tokens=limit)
        )[0]
        done = out.speculation
        assert out.token_ids == text[:limit]
        assert 0 <= done.acceptance_rate <= 1
        assert done.emitted + 1 == limit == out.usage.completion_tokens == out.timing.completion_tokens
        assert out.usage.total_tokens == limit + 60

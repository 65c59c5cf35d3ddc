"""A15-A20: penalties, biases and bans hold at every drafted position, each as plain decoding would have it there."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, Fixed, Oracle, drafting, lookup, watched, with_parts
from tests.cases.models import GREEDY, VOCAB, constant, copied, log_of, narrow, prompt, ref, texts_of
from tests.cases.verdicts import DRAWS, dist, eq

from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

A, B = 40, 41
BLOCKS = ([A] * 4, [B] * 4, [A, B, A, B], [B, A, B, A])
IDS = prompt(30)
V4_P, V4_RIGHT = [0.60, 0.30, 0.08, 0.02], [2 / 3, 1 / 3, 0, 0]


@pytest.fixture(scope="module")
def v3(tmp_path_factory):
    return constant(tmp_path_factory.mktemp("v3") / "m", {A: 2.0, B: 1.9, 42: -3.0})


@pytest.mark.parametrize("block", BLOCKS)
def test_a15_v3_penalties_count_accepted_tokens_of_their_own_block(v3, block):
    params = SamplingParams(max_tokens=12, temperature=0.0, frequency_penalty=0.5)
    eq([v3.generate(IDS, params)[0]], [[A, B] * 6])
    eq([with_parts(v3, Fixed(block), draft_tokens=4).generate(IDS, params)[0]], [[A, B] * 6])


@pytest.mark.parametrize("name", NAMES)
def test_a15_a_penalty_changes_the_text_with_drafts_as_without(mtiny, name):
    """hello hello hello; the texts under -2, 0 and +2 differ from each other and equal plain decoding's."""
    ids = mtiny.tokenizer.encode("hello hello hello")
    hello = [token for token in ids if token in ids[-5:]]
    texts = {}
    for penalty in (-2.0, 0.0, 2.0):
        params = replace(narrow(replace(GREEDY, max_tokens=24), hello), frequency_penalty=penalty)
        (texts[penalty],) = ref(mtiny, [ids], params)
        fast = (
            with_parts(mtiny, Fixed([hello[0]] * 4), draft_tokens=4)
            if name == "FIXED"
            else drafting(mtiny, name, [(ids, texts[penalty])])
        )
        eq(fast.generate(ids, params), [texts[penalty]])
    assert len(set(texts.values())) == 3


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_a16_v4_min_p_filters_verified_tokens(tmp_path, rule):
    llm = constant(tmp_path / "v4", log_of(V4_P, first=40), max_batch_size=50, max_context=64)
    params = SamplingParams(n=50, max_tokens=40, temperature=1.0, min_p=0.2, seed=4)
    outs = with_parts(llm, Fixed([42]), draft_tokens=1, acceptance=rule).generate([5], params)
    dist([token - 40 for out in outs for token in out.token_ids], V4_RIGHT)
    assert sum(out.speculation.accepted for out in outs) == 0 < outs[0].speculation.drafted


def test_a16_a_forbidding_bias_holds_for_20000_draws(tmp_path):
    llm = constant(tmp_path / "flat", dict.fromkeys(range(40, 44), 0.0), max_batch_size=200, max_context=112)
    params = SamplingParams(n=200, max_tokens=100, temperature=1.0, logit_bias={42: -100.0}, seed=5)
    fast = with_parts(llm, Fixed([40, 41, 40, 42, 42], [42]), draft_tokens=5, acceptance="rejection")
    tokens = Counter(token for out in fast.generate([5], params) for token in out.token_ids)
    assert tokens.total() == DRAWS
    assert tokens[42] == 0
    dist(list(tokens.elements()), {40: 1 / 3, 41: 1 / 3, 43: 1 / 3})


@pytest.fixture(scope="module")
def looping(tmp_path_factory):
    """A model whose text is one token for ever; each of 29 more is a little less likely. The penalty brings the first
    one, 2.0, below eleven of them."""
    logits = {40 + rank: 2.0 - 0.04 * rank for rank in range(30)}
    return constant(tmp_path_factory.mktemp("loop") / "m", logits)


@pytest.mark.parametrize("name", NAMES)
def test_a17_repetition_penalty_ends_a_loop_with_drafts_as_without(looping, name):
    ids = [40] * 10
    (loop,) = ref(looping, [ids])
    penalised = replace(GREEDY, repetition_penalty=1.3)
    (text,) = ref(looping, [ids], penalised)
    assert (set(loop), text) == ({40}, (*range(41, 52), *[40] * 29))
    for replayed in (text, loop):
        eq(drafting(looping, name, [(ids, replayed)]).generate(ids, penalised), [text])
    eq(with_parts(looping, Fixed([40] * 4), draft_tokens=4).generate(ids, penalised), [text])


@pytest.mark.parametrize("value", [0, 0.0, -1, -0.5, math.nan, math.inf])
def test_a17_a_penalty_that_means_nothing_is_refused(value):
    with pytest.raises(ArgumentError, match=rf"repetition_penalty must be .* not {value!r}"):
        SamplingParams(repetition_penalty=value)


@pytest.mark.parametrize("begin", range(1, 9))
def test_a18_a_bad_word_of_three_tokens_wherever_the_block_begins(mtiny, begin):
    """The word is tokens 8, 9 and 10 of the greedy text. Blocks of 5 begin at `begin` and then every 6 tokens, so it
    lies within one, across the start of one, or at the end of one."""
    (text,) = ref(mtiny, [IDS])
    x, y, z = text[8:11]
    params = replace(GREEDY, bad_words=[[x, y, z]])
    (right,) = ref(mtiny, [IDS], params)
    assert right[:10] == text[:10]
    assert right[10] != z
    drafts = [text[1:begin]] if begin > 1 else []
    at = begin
    while at < 40:
        drafts.append(text[at : at + 5])
        at += 6
    fast, rule = watched(with_parts(mtiny, Fixed(*drafts), draft_tokens=8))
    out = fast.generate(IDS, params)[0]
    eq([out], [right])
    assert not any(out.token_ids[i : i + 3] == (x, y, z) for i in range(40))
    met = [made for made in rule.rounds if made.position <= 30 + 10 <= made.position + made.accepted]
    assert len(met) == 1


@pytest.mark.parametrize("word", [[7, 8], [9]])
def test_a18_an_innocent_token_is_not_hit(mtiny, word):
    """The last token of a word may come wherever the others do not precede it."""
    (text,) = ref(mtiny, [IDS])
    harmless = [[*word[:-1], token] for token in set(text)] if len(word) > 1 else [word]
    params = replace(GREEDY, bad_words=harmless)
    (right,) = ref(mtiny, [IDS], params)
    eq(with_parts(mtiny, Oracle([(IDS, text)]), draft_tokens=6).generate(IDS, params), [right])
    assert right == text or set(text) & {7, 9}


def test_a19_lookup_proposes_a_suppressed_token_and_it_is_rejected(mtiny):
    """In the prompt 51 always follows 52, 50, which are all that may be written, so they come in this order soon."""
    ids = [50, 51, 52] * 10
    params = narrow(SamplingParams(max_tokens=16, temperature=4.0), (50, 52))
    fast, rule = watched(lookup(mtiny))
    for seed in range(8):
        out = fast.generate(ids, replace(params, seed=seed))[0]
        eq([out], ref(mtiny, [ids], replace(params, seed=seed)))
        assert set(out.token_ids) == {50, 52}
    proposed = [made for made in rule.drafted if 51 in made.draft]
    assert len(proposed) >= 4
    for made in proposed:
        assert made.accepted <= made.draft.index(51)


def test_a19_a_suppressed_draft_counts_as_rejected(mtiny):
    params = replace(GREEDY, suppress_tokens=[51])
    out = with_parts(mtiny, Fixed([51]), draft_tokens=1).generate(IDS, params)[0]
    eq([out], ref(mtiny, [IDS], params))
    assert (out.speculation.drafted, out.speculation.accepted) == (38, 0)


def test_a19_special_tokens_of_the_prompt(mtiny):
    """As above with the special tokens that a chat template puts into a prompt."""
    turn = [1, 60, 61, 62, 2, 70]
    params = replace(GREEDY, suppress_tokens=[0, 1, 2], logit_bias=dict.fromkeys((60, 61, 62, 70), 30.0))
    out = lookup(mtiny, 8).generate(turn * 6, params)[0]
    eq([out], ref(mtiny, [turn * 6], params))
    assert out.speculation.drafted > 0
    assert not {0, 1, 2} & set(out.token_ids)


@pytest.mark.parametrize("draft_tokens", [1, 4, 16])
@pytest.mark.parametrize("how", ["eos", "stop_token_ids"])
def test_a20_min_tokens_holds_where_a_draft_spans_the_end(altered, mtiny, draft_tokens, how):
    (text,) = ref(mtiny, [IDS])
    end = text[5]
    llm = LLM(altered(eos_token_id=end), drafter="none", pacer="fixed", device="cpu") if how == "eos" else mtiny
    params = replace(GREEDY, min_tokens=12, stop_token_ids=[end] if how != "eos" else None)
    (right,) = ref(llm, [IDS], params)
    assert end not in right[:12]
    assert right[:5] == text[:5]
    for replayed in (text, right):
        out = with_parts(llm, Oracle([(IDS, replayed)]), draft_tokens=draft_tokens).generate(IDS, params)[0]
        eq([out], [right])
        assert len(out.token_ids) >= 12
    assert ref(llm, [IDS], replace(params, min_tokens=None)) == [text[:6]]


@pytest.mark.parametrize("name", ["LOOKUP", "NOISY", "SELF"])
def test_a15_a20_all_of_them_together(mtiny, name):
    ids = copied(40)
    params = narrow(
        replace(
            GREEDY, repetition_penalty=1.2, frequency_penalty=0.4, presence_penalty=0.3, min_tokens=20,
            stop_token_ids=[41], logit_bias={43: 1.0}, bad_words=[[40, 42, 40], [42, 43]],
        ),
        range(40, 46),
    )  # fmt: skip
    texts = texts_of(mtiny, [ids], params)
    out = drafting(mtiny, name, texts).generate(ids, params)[0]
    eq([out], [texts[0][1]])
    assert out.speculation.accepted > 0
    assert mtiny.spec.vocab_size == VOCAB

"""A23-A26: an end-of-text token ends the output where plain decoding would, wherever in a block it falls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, Fixed, Oracle, drafting, lookup, watched, with_parts
from tests.cases.models import GREEDY, VOCAB, copied, narrow, plain, prompt, ref, texts_of
from tests.cases.verdicts import eq, ledger

from glimpse.llm import LLM

IDS = prompt(30)


@pytest.fixture(scope="module")
def text(tiny):
    """The greedy continuation of IDS: its first 16 tokens are all different, so each can be the one that ends it."""
    (tokens,) = ref(tiny, [IDS])
    assert len(set(tokens[:16])) == 16
    return tokens


def ending(folder) -> LLM:
    return LLM(folder, drafter="none", pacer="fixed", device="cpu", max_batch_size=2)


@pytest.mark.parametrize("place", [1, 2, 5, 6, 7, 9, 10, 15])
@pytest.mark.parametrize("draft_tokens", [4, 8])
def test_a23_nothing_comes_after_it(altered, text, place, draft_tokens):
    """Blocks of 4 and 8 and the target's own token: token `place` falls into every slot, first and last included."""
    llm = ending(altered(eos_token_id=text[place - 1]))
    fast = drafting(llm, "ORACLE", [(IDS, text)], draft_tokens)
    with ledger(fast):
        chunks = list(fast.stream(IDS, replace(GREEDY, logprobs=0)))
    out = chunks[-1].output
    eq([out], [text[:place]])
    assert (out.finish_reason, out.stop_reason) == ("stop", None)
    assert sum((chunk.token_ids for chunk in chunks), ()) == out.token_ids
    assert "".join(chunk.text for chunk in chunks) == out.text == llm.tokenizer.decode(out.token_ids[:-1])
    assert len(out.logprobs) == out.usage.completion_tokens == place
    assert out.speculation.accepted <= place
    assert plain(llm).generate(IDS, GREEDY)[0].token_ids == out.token_ids


def test_a23_every_slot_of_the_block_was_met(altered, text):
    """That the cases above are what they say: the slot in which the end falls, by its place."""
    slots = set()
    for place in range(2, 10):
        llm = ending(altered(eos_token_id=text[place - 1]))
        fast, rule = watched(drafting(llm, "ORACLE", [(IDS, text)], 4))
        fast.generate(IDS, GREEDY)
        last = rule.rounds[-1]
        slots.add((len(IDS) + place - 1) - last.position)
    assert slots == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_a24_a_drafted_end_ends_nothing_by_itself(altered, text, draft_tokens):
    eos = next(token for token in range(3, VOCAB) if token not in text)
    llm = ending(altered(eos_token_id=eos))
    for draft in ([eos], [eos] * 4, [text[1], eos, text[2]], [text[1], text[2], eos, eos]):
        fast, rule = watched(with_parts(llm, Fixed(draft), draft_tokens=draft_tokens))
        out = fast.generate(IDS, GREEDY)[0]
        eq([out], [text])
        assert out.finish_reason == "length"
        assert not any(eos in made.emitted for made in rule.rounds)


def test_a24_the_end_ends_it_once_the_target_agrees(altered, text):
    llm = ending(altered(eos_token_id=text[12]))
    out = with_parts(llm, Fixed([text[12]]), draft_tokens=1).generate(IDS, GREEDY)[0]
    eq([out], [text[:13]])
    assert (out.finish_reason, out.speculation.accepted) == ("stop", 1)


@pytest.mark.parametrize("name", NAMES)
def test_a25_no_end_of_text_is_configured(mtiny, name):
    """The tail of the prompt occurs earlier in it, as does that of the text."""
    ids = copied(40)
    params = narrow(allowed=ids[:3])
    assert mtiny.loaded.checkpoint.spec.eos_token_ids == ()
    texts = texts_of(mtiny, [ids], params)
    out = drafting(mtiny, name, texts).generate(ids, params)[0]
    eq([out], [texts[0][1]])
    assert (len(out.token_ids), out.finish_reason) == (40, "length")
    assert (out.speculation.drafted > 0) == (name != "EMPTY")


def test_a25_lookup_drafts_the_copy(mtiny):
    half = prompt(20)
    fast, rule = watched(lookup(mtiny))
    fast.generate(half + half[:10], replace(GREEDY, max_tokens=6, logit_bias={half[10]: 1000.0}))
    assert rule.drafted[0].draft == half[11:15]


@pytest.mark.parametrize("source", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("least", [0, 10])
def test_a26_every_listed_id_ends_or_none_does(altered, text, source, ignored, least):
    ids = [text[3], text[6]]
    for listed in (ids, ids[::-1]):
        folder = altered(eos_token_id=listed) if source == "config.json" else altered({"eos_token_id": listed})
        llm = ending(folder)
        params = replace(GREEDY, ignore_eos=ignored, min_tokens=least)
        (right,) = ref(llm, [IDS], params)
        for replayed in (text, right):
            out = with_parts(llm, Oracle([(IDS, replayed)]), draft_tokens=5).generate(IDS, params)[0]
            eq([out], [right])
            assert out.finish_reason == ("stop" if len(right) < 40 else "length")
        if least:
            assert not set(right[:10]) & set(ids)
        else:
            assert right == (text if ignored else text[:4])
        assert not ignored or len(right) == 40


def test_a26_the_second_id_ends_it_too(altered, text):
    llm = ending(altered(eos_token_id=[299, text[6]]))
    for name in NAMES:
        out = drafting(llm, name, [(IDS, text)], budget_floor=8).generate(IDS, GREEDY)[0]
        eq([out], [text[:7]])
        assert out.finish_reason == "stop"

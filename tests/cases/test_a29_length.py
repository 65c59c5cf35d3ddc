"""A29-A30: exactly as many tokens as asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, drafting, lookup
from tests.cases.models import GREEDY, narrow, plain, prompt, ref
from tests.cases.verdicts import eq, ledger

from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

IDS = prompt(30)
LOOP = [50, 51, 52] * 10


@pytest.mark.parametrize("limit", [1, 2, 13])
@pytest.mark.parametrize("draft_tokens", [4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_a29_never_more_than_asked_for(mtiny, name, draft_tokens, limit):
    (text,) = ref(mtiny, [IDS])
    fast = drafting(mtiny, name, [(IDS, text)], draft_tokens)
    with ledger(fast):
        out = fast.generate(IDS, replace(GREEDY, max_tokens=limit))[0]
    eq([out], [text[:limit]])
    assert (out.finish_reason, out.usage.completion_tokens) == ("length", limit)
    assert out.speculation.accepted < limit


@pytest.mark.parametrize("draft_tokens", [1, 3, 8])
def test_a29_lookup_on_a_prompt_that_repeats(mtiny, draft_tokens):
    params = narrow(replace(GREEDY, max_tokens=2), (50, 51, 52))
    out = lookup(mtiny, draft_tokens).generate(LOOP, params)[0]
    eq([out], ref(mtiny, [LOOP], params))
    assert len(out.token_ids) == 2


@pytest.mark.parametrize("limit", [-1, None])
@pytest.mark.parametrize("name", NAMES)
def test_a30_without_a_limit_up_to_the_end_of_the_context(tiny_folder, name, limit):
    llm = LLM(tiny_folder, drafter="none", pacer="fixed", max_context=70, device="cpu")
    params = SamplingParams(max_tokens=limit, temperature=0.0)
    (text,) = ref(llm, [IDS], params)
    out = drafting(llm, name, [(IDS, text)], budget_floor=8).generate(IDS, params)[0]
    eq([out], [text])
    assert (len(out.token_ids), out.finish_reason) == (40, "length")


def test_a30_without_a_limit_up_to_the_end_of_the_text(altered, mtiny):
    (text,) = ref(mtiny, [IDS])
    llm = LLM(altered(eos_token_id=text[20]), drafter="none", pacer="fixed", device="cpu")
    for name in ("ORACLE", "SELF"):
        fast = drafting(llm, name, [(IDS, text)])
        for limit in (-1, None):
            out = fast.generate(IDS, replace(GREEDY, max_tokens=limit))[0]
            eq([out], [text[:21]])
            assert out.finish_reason == "stop"


@pytest.mark.parametrize("name", NAMES)
def test_a30_nothing_asked_for_needs_no_forward(mtiny, name):
    fast = drafting(mtiny, name, [(IDS, ())])
    with ledger(fast):
        out = fast.generate(IDS, replace(GREEDY, max_tokens=0))[0]
    assert (out.token_ids, out.text, out.finish_reason) == ((), "", "length")
    assert fast._engine.steps == 0
    assert plain(mtiny).generate(IDS, replace(GREEDY, max_tokens=0))[0].token_ids == ()


@pytest.mark.parametrize("limit", [-2, 1.5, "many", True])
def test_a30_other_limits_are_refused(limit):
    with pytest.raises(ArgumentError, match="max_tokens must be a whole number >= -1"):
        SamplingParams(max_tokens=limit)

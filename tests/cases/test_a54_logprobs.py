"""A54-A56: logprobs of every token and of the prompt, whatever was drafted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import drafting
from tests.cases.models import GREEDY, copied, narrow, plain, prompt, texts_of
from tests.cases.verdicts import ledger

PROMPTS = [prompt(1), prompt(2), copied(50)]
PARAMS = {
    "greedy": replace(GREEDY, max_tokens=20, logprobs=5),
    "T=1": replace(GREEDY, max_tokens=20, logprobs=5, temperature=1.0, seed=3),
    "narrow": replace(narrow(), max_tokens=20, logprobs=5),
}


def close(got, right) -> None:
    """The same tokens, logprobs within 1e-4, the same top five."""
    assert [entry and entry.token_id for entry in got] == [entry and entry.token_id for entry in right]
    for one, other in zip(got, right, strict=True):
        if other is not None:
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert {token for token, _ in one.top} == {token for token, _ in other.top}


@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.parametrize("name", ["LOOKUP", "NOISY", "SELF"])
def test_a54_a55_equal_to_plain_in_every_response_and_chunk(mtiny, name, kind):
    params = PARAMS[kind]
    texts = texts_of(mtiny, PROMPTS, params)
    fast, right = drafting(mtiny, name, texts, p=0.4), plain(mtiny).generate(PROMPTS, params)
    for ids, out, expected in zip(PROMPTS, fast.generate(PROMPTS, params), right, strict=True):
        close(out.logprobs, expected.logprobs)
        assert len(out.logprobs) == len(out.token_ids) == 20
        assert any(entry.logprob < -1e-3 for entry in out.logprobs)
        chunks = list(fast.stream(ids, params))
        assert all(len(chunk.logprobs) == len(chunk.token_ids) for chunk in chunks)
        close([entry for chunk in chunks for entry in chunk.logprobs], expected.logprobs)
        assert chunks[-1].output.logprobs == tuple(entry for chunk in chunks for entry in chunk.logprobs)


def test_a55_chunks_without_logprobs_where_none_were_asked_for(mtiny):
    assert {chunk.logprobs for chunk in mtiny.stream(PROMPTS[2], replace(GREEDY, max_tokens=4))} == {None}


@pytest.mark.parametrize("name", ["LOOKUP", "NOISY"])
@pytest.mark.parametrize("ids", PROMPTS, ids=lambda ids: f"{len(ids)} tokens")
def test_a56_of_the_prompt(mtiny, name, ids):
    asked, unasked = replace(GREEDY, max_tokens=12, prompt_logprobs=1), replace(GREEDY, max_tokens=12)
    texts = texts_of(mtiny, [ids], unasked)
    fast, right = drafting(mtiny, name, texts), plain(mtiny).generate([ids], asked)[0]
    for _ in range(2):
        with ledger(fast):
            out = fast.generate([ids], asked)[0]
        assert out.token_ids == right.token_ids == texts[0][1]
        assert len(out.prompt_logprobs) == len(ids)
        assert out.prompt_logprobs[0] is None
        close(out.prompt_logprobs, right.prompt_logprobs)
        follows = fast.generate([ids], unasked)[0]
        assert follows.token_ids == texts[0][1]
        assert follows.prompt_logprobs is None

"""Logprobs through the engine: as many as tokens, equal to plain decoding's, whatever was drafted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from tests.doubles import Noisy, with_parts

from glimpse.sampling import SamplingParams

DRAW = random.Random(2)
PROMPTS = [DRAW.choices(range(3, 300), k=length) for length in (1, 2, 50, 130)]
GREEDY = SamplingParams(max_tokens=25, temperature=0.0, logprobs=5, prompt_logprobs=2)
SAMPLED = replace(GREEDY, temperature=1.0, seed=4, top_k=50, presence_penalty=0.5)


def close(left, right) -> None:
    """The same tokens in the same order, probabilities within 1e-4."""
    assert [entry and entry.token_id for entry in left] == [entry and entry.token_id for entry in right]
    for one, other in zip(left, right, strict=True):
        if one is not None:
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert [token for token, _ in one.top] == [token for token, _ in other.top]
            assert [value for _, value in one.top] == pytest.approx([value for _, value in other.top], abs=1e-4)


@pytest.fixture(scope="module", params=[GREEDY, SAMPLED], ids=["greedy", "sampled"])
def plain(tiny, request):
    return request.param, tiny.generate(PROMPTS, request.param)


@pytest.mark.parametrize("drafter", ["sparse", "lookup", "noisy"])
@pytest.mark.parametrize("chunk", [512, 9])
def test_equal_to_plain_and_counted(tiny, plain, drafter, chunk, monkeypatch):
    """A54-A56."""
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", chunk)
    params, right = plain
    if drafter == "noisy":
        texts = [(ids, out.token_ids) for ids, out in zip(PROMPTS, right, strict=True)]
        llm = with_parts(tiny, Noisy(texts, 0.4), draft_tokens=6)
    else:
        llm = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=6)
    for got, expected in zip(llm.generate(PROMPTS, params), right, strict=True):
        assert got.token_ids == expected.token_ids
        assert len(got.logprobs) == len(got.token_ids) == 25
        assert [entry.token_id for entry in got.logprobs] == list(got.token_ids)
        assert len(got.prompt_logprobs) == len(got.prompt_token_ids)
        assert got.prompt_logprobs[0] is None
        close(got.logprobs, expected.logprobs)
        close(got.prompt_logprobs, expected.prompt_logprobs)


def test_they_are_the_models_own(tiny, tiny_folder, plain):
    """Against transformers' logits, before penalties and truncation."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    _, outs = plain
    for out in outs:
        ids = [*out.prompt_token_ids, *out.token_ids]
        with torch.no_grad():
            laws = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
        entries = [*out.prompt_logprobs[1:], *out.logprobs]
        for place, entry in enumerate(entries):
            assert entry.token_id == ids[place + 1]
            assert entry.logprob == pytest.approx(float(laws[place, ids[place + 1]]), abs=1e-4)
            assert [token for token, _ in entry.top] == laws[place].topk(len(entry.top)).indices.tolist()


def test_none_asked_for_none_given(tiny):
    out = tiny.generate(PROMPTS[2], SamplingParams(max_tokens=3, seed=1))[0]
    assert out.logprobs is None
    assert out.prompt_logprobs is None
    zero = tiny.generate(PROMPTS[2], SamplingParams(max_tokens=3, seed=1, logprobs=0))[0]
    assert [entry.top for entry in zero.logprobs] == [(), (), ()]


def test_a_pinned_prompt_still_has_its_logprobs(tiny):
    """They need every position's logits, so then nothing is shared."""
    right = tiny.generate(PROMPTS[3], GREEDY)[0]
    with tiny.pinned(PROMPTS[3]):
        out = tiny.variant(drafter="sparse").generate(PROMPTS[3], GREEDY)[0]
    close(out.prompt_logprobs, right.prompt_logprobs)


def test_an_end_in_a_block_cuts_them_too(altered, tiny):
    """A55 with A23: accepted tokens behind the end have none."""
    from glimpse.llm import LLM

    text = tiny.generate(PROMPTS[2], GREEDY)[0].token_ids
    place = text.index(text[6])
    llm = LLM(altered(eos_token_id=text[6]), drafter="none", pacer="fixed")
    fast = with_parts(llm, Noisy([(PROMPTS[2], text)], 0.0), draft_tokens=12)
    out = fast.generate(PROMPTS[2], GREEDY)[0]
    assert out.token_ids == text[: place + 1]
    assert len(out.logprobs) == place + 1

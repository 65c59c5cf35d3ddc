"""A73, A74: dynamic rotary scaling. The rule: a token at position t of a prompt of P tokens is rotated as in a text of
max(P, t + 1) tokens, which is what plain decoding, token by token, has seen; cached keys are never rotated again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cases.doubles import drafting
from tests.cases.models import GREEDY, plain, prompt, texts_of
from tests.cases.verdicts import eq, ledger
from tests.model.dense import DenseRun

from glimpse.llm import LLM

TRAINED = 32


@pytest.fixture
def llm(altered):
    folder = altered(max_position_embeddings=TRAINED, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=9, device="cpu")


@pytest.mark.parametrize("name", ["NOISY", "LOOKUP", "SELF"])
@pytest.mark.parametrize("draft_tokens", [1, 7])
def test_a73_blocks_across_the_trained_length(llm, name, draft_tokens):
    """Prompts of 24 to 40 tokens, each written on to 80."""
    for length in range(24, 41, 4):
        ids, params = prompt(length, "a73"), replace(GREEDY, max_tokens=80 - length)
        texts = texts_of(llm, [ids], params)
        fast = drafting(llm, name, texts, draft_tokens)
        with ledger(fast):
            eq(fast.generate([ids], params), [texts[0][1]])


@pytest.mark.parametrize("length", [10, 31, 32, 33, 50])
def test_a73_logits_follow_the_rule(llm, length):
    """Written token by token against the decoder alone, whose every token is told its length by the rule."""
    ids, params = prompt(length, "a73"), replace(GREEDY, max_tokens=80 - length, logprobs=0)
    (text,) = (text for _, text in texts_of(llm, [ids], params))
    run = DenseRun(llm.loaded.checkpoint.decoder, ids)
    logits = [run.last[-1], *(run.feed([token])[-1] for token in text[:-1])]
    right = [float(torch.log_softmax(own, -1)[token]) for own, token in zip(logits, text, strict=True)]
    for fast in (plain(llm), drafting(llm, "NOISY", [(ids, text)], 5), drafting(llm, "SELF", draft_tokens=5)):
        out = fast.generate([ids], params)[0]
        assert out.token_ids == text
        assert [entry.logprob for entry in out.logprobs] == pytest.approx(right, abs=1e-4)


def test_a73_the_base_does_change(llm):
    """Or nothing would have been tested."""
    rotary, at = llm.loaded.checkpoint.decoder.rotary, torch.tensor([20])
    near, far = (rotary.at(at, torch.tensor([length]), torch.float32).cos for length in (TRAINED, 2 * TRAINED))
    assert not torch.equal(near, far)


@pytest.mark.parametrize("name", ["plain", "NOISY", "LOOKUP", "SELF"])
def test_a74_a_long_request_leaves_nothing_behind(llm, name):
    short, long = prompt(10, "a74"), prompt(100, "a74")
    params = replace(GREEDY, max_tokens=15, logprobs=1)
    texts = texts_of(llm, [short, long], params)
    fast = plain(llm) if name == "plain" else drafting(llm, name, texts)
    first, between, third = (fast.generate([ids], params)[0] for ids in (short, long, short))
    assert first.token_ids == third.token_ids == texts[0][1]
    assert first.logprobs == third.logprobs
    assert between.token_ids == texts[1][1]

"""Forwards over a held text give what generation gives, and leave nothing behind."""

import torch
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM, SamplingParams
from glimpse.bench.held import held, parts_of
from glimpse.bench.judge import margin, rounding_limit
from glimpse.cache.recall import RecallBudget


def plain(tmp_path):
    return LLM(write_tiny_checkpoint(tmp_path / "m"), drafter="none", pacer="fixed", max_batch_size=2, threads=1)


def test_held_text_agrees_with_generation(tmp_path):
    llm = plain(tmp_path)
    ids = [1 + n * 7 % 290 for n in range(70)]
    out = llm.generate([ids], SamplingParams(max_tokens=3, temperature=0, ignore_eos=True))[0]
    pool = parts_of(llm).pool
    free = pool.free_pages
    with llm.pinned(ids), held(llm, [*ids, *out.token_ids[:2]]) as text:
        picks = text.last(3).logits[0].argmax(1).tolist()
        one = text.last(1).logits[0]
        everything = text.recalled(text.length - 1, RecallBudget(share=1.0), text.window())
        dense = text.forward(text.length - 1, 1, recalled=everything).logits[0]
    assert picks == list(out.token_ids)
    assert torch.allclose(one, dense, atol=1e-4), "a recall set as long as the context is dense attention"
    assert pool.free_pages == free


def test_the_margin_of_a_wrong_token_is_far_above_the_rounding_limit(tmp_path):
    llm = plain(tmp_path)
    ids = [1 + n * 7 % 290 for n in range(70)]
    limit = rounding_limit(llm, ids)
    assert 0 <= limit < 1e-3
    params = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)
    out = list(llm.generate([ids], params)[0].token_ids)
    assert margin(llm, ids, out, 2, (out[2] + 1) % 290, params) > 10 * limit
    assert margin(llm, ids, out, 2, out[2], params) == 0

"""A75-A77: what a sparse draft reads, against attention with an explicit mask.

Nothing is evicted and no key is rotated twice: a draft row reads chosen positions, at their old places, of a cache that
stays whole. So there is no cache of sinks and a window; the same sizes are tested as sets of positions.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt, ref
from tests.cases.verdicts import eq
from tests.model.dense import DenseAttention, DenseRun

from glimpse.bench.held import held
from glimpse.cache.recall import RecallBudget, recall, select
from glimpse.engine import engine as loop
from glimpse.errors import ArgumentError

LEAST = 36
"""Positions that a draft reads at least: 4 sinks and 32 recent ones."""


class Masked(DenseAttention):
    """Attention of tokens fed one at a time, each KV head reading only some of the first `base` positions."""

    def __init__(self, decoder, run, positions, base):
        super().__init__(decoder)
        self.keys = [[torch.cat(keys)[:base]] for keys in run.attend.keys]
        self.values = [[torch.cat(values)[:base]] for values in run.attend.values]
        self.positions, self.base = positions, base

    def __call__(self, layer, q, k, v):
        self.keys[layer].append(k.clone())
        self.values[layer].append(v.clone())
        keys, values = torch.cat(self.keys[layer]), torch.cat(self.values[layer])
        out = torch.empty_like(q)
        for head in range(q.shape[1]):
            group = head // self.groups
            read = torch.cat([self.positions[layer, group], torch.arange(self.base, len(keys))])
            weights = (keys[read, group] @ q[0, head] / q.shape[-1] ** 0.5).softmax(-1)
            out[0, head] = weights @ values[read, group]
        return out


def explicit(decoder, text, positions, base):
    """Logits after each token of `text` from `base` on, of rows that read only `positions` of what is before."""
    run = DenseRun(decoder, text[:base])
    attend, found = Masked(decoder, run, positions, base), []
    with torch.inference_mode():
        for at in range(base, len(text)):
            where = torch.tensor([at])
            hidden = decoder.forward(torch.tensor([text[at]]), where, where + 1, attend)
            found.append(decoder.logits(hidden)[0])
    return found


def close(got, right):
    """Within 1e-5 of the largest logit: float32 has no more."""
    assert float((got - right).abs().max()) < 1e-5 * float(right.abs().max())


def test_a75_there_is_no_cache_of_sinks_and_a_window(mtiny):
    for option in ("sinks", "attention_sinks", "window", "sliding_window", "cache_implementation"):
        with pytest.raises(ArgumentError, match=f"unknown option '{option}'; known: "):
            mtiny.variant(**{option: 4})


@pytest.mark.parametrize("block", [1, 5])
def test_a75_sinks_and_a_window_at_their_old_places(tmp_path, block):
    """Sinks 4, window 12, 60 tokens: each step, and each block of K + 1, against the explicit set."""
    llm, text, window, base = mini(tmp_path, num_hidden_layers=1), prompt(60, "a75"), 12, 16
    decoder, whole = llm.loaded.checkpoint.decoder, torch.arange
    with held(llm, text) as cached, torch.inference_mode():
        for start in range(base, 60 - block + 1, block):
            kept = torch.cat([whole(4), whole(start - window, start)]).expand(1, 2, -1)
            found = recall(cached.parts.pool, cached._sequence, kept, start)
            got = cached.forward(start, block, recalled=found).logits[0]
            right = explicit(decoder, text[: start + block], kept, start)
            close(got, torch.stack(right))


@pytest.mark.parametrize("write", [24, 12, 1])
def test_a76_the_last_positions_alone(tmp_path, write):
    """One layer keeps the last 24 of 44 tokens at their old places: as the dense model on those 24 alone."""
    llm, text, kept = mini(tmp_path, num_hidden_layers=1), prompt(44, "a76"), 24
    before = len(text) - kept
    right = DenseRun(llm.loaded.checkpoint.decoder, text[before:]).last
    with held(llm, text) as cached, torch.inference_mode():
        found = []
        for start in range(before, 44, write):
            positions = torch.arange(before, start).expand(1, 2, -1)
            read = recall(cached.parts.pool, cached._sequence, positions, start)
            found.append(cached.forward(start, write, recalled=read).logits[0])
    close(torch.cat(found), right)


@pytest.mark.parametrize("length", [LEAST - 1, LEAST, LEAST + 1, 4 * LEAST])
def test_a77_drafts_read_what_their_set_says(tmp_path, monkeypatch, length):
    """Every draft row of a run: dense up to the budget, beyond it the explicit mask, which is not the same."""
    llm = mini(tmp_path, rows=1)
    sparse = llm.variant(drafter="sparse", draft_tokens=3, budget=0.01, budget_floor=0)
    decoder, rows, whole, seen = llm.loaded.checkpoint.decoder, sparse._engine.parts.rows, loop.forward, []

    def forward(*given):
        result = whole(*given)
        for spec, logits in zip(given[3], result.logits, strict=True):
            if spec.recall is not None:
                seen.append((rows.tokens[0, : spec.stop].tolist(), spec.recall, logits[-1].clone()))
        return result

    ids, params = prompt(length, "a77"), replace(GREEDY, max_tokens=8)
    text = ref(llm, [ids], params)
    monkeypatch.setattr(loop, "forward", forward)
    eq(sparse.generate([ids], params), text)
    unlike = 0
    for tokens, read, logits in seen:
        base = read.base
        assert len(read) == min(base, LEAST)
        assert base + read.positions.shape[-1] >= len(read)
        torch.testing.assert_close(logits, explicit(decoder, tokens, read.positions, base)[-1], rtol=0, atol=1e-4)
        dense = DenseRun(decoder, tokens).last[-1]
        if base <= LEAST:
            torch.testing.assert_close(logits, dense, rtol=0, atol=1e-4)
        unlike += bool((logits - dense).abs().max() > 1e-2)
    assert len(seen) > 3
    assert unlike or length < 2 * LEAST


def test_a77_the_sets_are_sorted_unique_and_within_their_base():
    scores = torch.rand(2, 2, 200, generator=torch.Generator().manual_seed(1))
    positions = select(scores, RecallBudget(share=0.3, floor=0))
    assert positions.shape[-1] == 60
    assert (positions.diff(dim=-1) > 0).all()
    assert int(positions.max()) == 199

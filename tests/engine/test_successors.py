"""Recycled logits on their way to drafters: which tokens, which successors, with which probabilities."""

from __future__ import annotations

import pytest
import torch
from tests.doubles import Empty
from tests.trees import Trees, with_trees

from glimpse.engine import phases
from glimpse.engine.successors import likeliest
from glimpse.sampling import SamplingParams

PROMPT = [5, 6, 7, 9] * 9


@pytest.mark.parametrize("vocab", [3, 8, 64, 300, 320, 4096])
def test_likeliest_is_a_topk_of_the_softmax(vocab):
    logits = torch.randn(70, vocab, generator=torch.Generator().manual_seed(vocab)) * 3
    ids, chances = likeliest(logits)
    right = logits.softmax(1).topk(min(8, vocab))
    assert torch.equal(ids, right.indices)
    assert torch.equal(chances, right.values)


def test_likeliest_of_equal_and_masked_logits_has_no_id_twice():
    logits = torch.full((2, 640), -torch.inf)
    logits[0] = 1.0
    logits[1, 100] = 2.0
    ids, chances = likeliest(logits)
    assert [len(set(row)) for row in ids.tolist()] == [8, 8]
    assert chances[1].tolist() == [1.0] + [0.0] * 7
    assert ids[1, 0] == 100


def test_likeliest_of_broken_logits_is_nothing():
    assert not likeliest(torch.full((1, 320), torch.nan))[1].any()


class Listening(Trees):
    """Keeps what it is told."""

    wants_successors = True


def test_outcomes_tell_of_every_verified_node(tiny):
    """On the path they are what a forward over the text says; every other node is there too."""
    params = SamplingParams(max_tokens=24, temperature=0.9, seed=5, repetition_penalty=1.2)
    text = list(tiny.generate([PROMPT], params)[0].token_ids)
    drafter = Listening([(PROMPT, text)], "random", 20, 0.8)
    assert list(with_trees(tiny, drafter, draft_tokens=6).generate([PROMPT], params)[0].token_ids) == text
    known = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=8)
    right = tiny.generate([[*PROMPT, *text]], known)[0].prompt_logprobs
    place, checked = len(PROMPT), 0
    for outcome in drafter.outcomes:
        told = outcome.successors
        assert len(told.tokens) == outcome.drafted + 1
        path = range(outcome.accepted) if outcome.path is None else outcome.path
        for node in (0, *(node + 1 for node in path)):
            if place < len(right):
                assert told.tokens[node] == [*PROMPT, *text][place - 1]
                assert told.likeliest[node].tolist() == [token for token, _ in right[place].top]
                logs = told.chances[node].log().tolist()
                assert logs == pytest.approx([value for _, value in right[place].top], abs=1e-3)
                checked += 1
            place += 1
    assert checked > 15
    assert sum(outcome.drafted for outcome in drafter.outcomes) > 60


class Reading(Empty):
    """Wants the prompt's successors."""

    wants_successors = wants_prompt_topk = True

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.budget = 1

    def recycle(self, slot, successors):
        assert successors.likeliest.shape == (len(successors.tokens), 8)
        self.read += successors.tokens.tolist()

    def absorb(self, rows, outcomes):
        for outcome in outcomes:
            self.recycle(outcome.slot, outcome.successors)


@pytest.mark.parametrize("chunk", [7, 512])
def test_a_reader_is_told_of_the_prompt_in_chunks(tiny, monkeypatch, chunk):
    monkeypatch.setattr(phases, "CHUNK", chunk)
    drafter, params = Reading(), SamplingParams(max_tokens=5, temperature=0.0)
    prompt = [chunk % 300, *PROMPT]  # of no kept pages: what they hold is not told
    out = with_trees(tiny, drafter).generate([prompt], params)[0]
    assert drafter.read == [*prompt, *out.token_ids[:-1]]
    assert out.token_ids == tiny.generate([prompt], params)[0].token_ids

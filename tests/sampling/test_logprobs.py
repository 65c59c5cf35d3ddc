"""Reported log-probabilities: the raw model's, with ranks and the most probable tokens."""

import torch

from glimpse.sampling import token_logprobs


def test_values_ranks_and_top():
    logits = torch.randn(6, 97, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([0, 5, 96, 33, 2, 50])
    got = token_logprobs(logits, tokens, 5)
    right = torch.log_softmax(logits.double(), 1)
    assert torch.allclose(got.logprobs.double(), right[torch.arange(6), tokens], atol=1e-6)
    order = right.argsort(dim=1, descending=True)
    assert torch.equal(got.top_ids, order[:, :5])
    assert torch.allclose(got.top_logprobs.double(), right.gather(1, order[:, :5]), atol=1e-6)
    assert got.ranks.tolist() == [order[i].tolist().index(tokens[i]) + 1 for i in range(6)]


def test_ties_rank_by_id_also_at_the_boundary():
    logits = torch.zeros(1, 600)
    logits[0, 7] = 1.0
    got = token_logprobs(logits, torch.tensor([4]), 3)
    assert got.top_ids.tolist() == [[7, 0, 1]]
    assert got.ranks.tolist() == [6]


def test_no_top_and_a_top_as_wide_as_the_vocabulary():
    logits = torch.randn(2, 9)
    assert token_logprobs(logits, torch.tensor([1, 2]), 0).top_ids.shape == (2, 0)
    wide = token_logprobs(logits, torch.tensor([1, 2]), 50)
    assert torch.equal(wide.top_ids, logits.argsort(dim=1, descending=True))


def test_logits_are_left_alone():
    logits = torch.randn(2, 9)
    before = logits.clone()
    token_logprobs(logits, torch.tensor([1, 2]), 3)
    assert torch.equal(logits, before)

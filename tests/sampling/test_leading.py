"""Runners-up: what `pick` would give were the better ones not there."""

from __future__ import annotations

import pytest
import torch

from glimpse.sampling import Laws, Role, pick
from glimpse.sampling.leading import leading

VOCAB, ROWS = 40, 6


def laws_of(kind: str) -> tuple[Laws, torch.Tensor]:
    logits = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(1))
    dense = Laws.dense(torch.log_softmax(logits, 1))
    if kind == "dense":
        return dense, logits
    best = dense.logp.topk(12)
    return Laws(torch.log_softmax(best.values, 1), best.indices, dense.greedy, VOCAB), logits


@pytest.mark.parametrize("role", [Role.TARGET, Role.DRAFT])
@pytest.mark.parametrize("kind", ["dense", "truncated"])
def test_each_is_the_pick_without_those_before_it(kind, role):
    laws, logits = laws_of(kind)
    noise = (torch.arange(ROWS) * 7, torch.arange(ROWS) + 100, role, 3)
    ids, scores = leading(laws, logits, *noise, count=4)
    left = laws.to_dense().logp.clone()
    for place in range(4):
        expected = pick(Laws.dense(left), *noise)
        assert ids[:, place].tolist() == expected.tolist()
        left.scatter_(1, expected[:, None], -torch.inf)
    assert (scores.diff(dim=1) <= 0).all()


def test_greedy_rows_take_the_likeliest_and_narrow_laws_leave_places_empty():
    laws, logits = laws_of("dense")
    mixed = Laws.cat([Laws.point(torch.tensor([3]), VOCAB), laws.select(slice(1, 3))])
    ids, scores = leading(mixed, logits[:3], torch.zeros(3, dtype=torch.int64), torch.arange(3), Role.TARGET, count=5)
    assert ids[0].tolist() == logits[0].topk(5).indices.tolist()
    torch.testing.assert_close(scores[0], torch.log_softmax(logits[0], 0).topk(5).values)
    one = Laws(torch.zeros(1, 1), torch.tensor([[9]]), torch.zeros(1, dtype=torch.bool), VOCAB)
    ids, scores = leading(one, logits[:1], torch.tensor([1]), torch.tensor([2]), Role.TARGET, count=5)
    assert ids[0, 0] == 9
    assert scores[0].isfinite().tolist() == [True] + [False] * 4

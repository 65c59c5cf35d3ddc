"""rejection: accept with min(1, p/q), the residual, and what it refuses."""

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.acceptance.rejection import _residual
from glimpse.errors import ArgumentError
from glimpse.sampling import Laws, Role
from glimpse.sampling.noise import uniform

RULE = acceptance.resolve("rejection")


def dense(*rows):
    return Laws.dense(torch.tensor(rows).log())


def test_trees_are_refused(make_draft):
    laws = dense([0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    noise = NodeNoise(torch.zeros(3, dtype=torch.int64), torch.arange(3))
    with pytest.raises(ArgumentError, match="chains, not trees"):
        RULE.accept(make_draft([[0, 1]], [[-1, -1]]), laws, noise)


def test_accepted_exactly_when_u_q_is_below_p(make_draft):
    p, q, rows = [0.2, 0.8], [0.5, 0.5], 500
    draft = make_draft([[0]] * rows, law=dense(*[q] * rows))
    noise = NodeNoise(torch.arange(rows).repeat_interleave(2), torch.tensor([30, 31]).repeat(rows))
    got = RULE.accept(draft, dense(*[p, p] * rows), noise)
    zero = torch.zeros(1, dtype=torch.int64)
    u = uniform(torch.arange(rows), torch.full((rows,), 30), Role.ACCEPT, 0, zero)[:, 0]
    assert got.counts == tuple((u * 0.5 < 0.2).int().tolist())
    refused = [tokens for tokens, count in zip(got.token_lists(), got.counts, strict=True) if count == 0]
    assert refused
    assert all(tokens == [1] for tokens in refused), "the residual holds token 1 alone"


def test_a_draft_from_the_targets_own_law_is_always_accepted(make_draft):
    law = dense(*[[0.1, 0.2, 0.7]] * 50)
    draft = make_draft([[i % 3] for i in range(50)], law=law)
    noise = NodeNoise(torch.arange(100), torch.arange(100))
    assert RULE.accept(draft, Laws.cat([law, law]), noise).counts == (1,) * 50


def test_residual_law():
    got = _residual(dense([0.5, 0.3, 0.2]), dense([0.2, 0.3, 0.5])).probs()
    assert torch.allclose(got, torch.tensor([[1.0, 0, 0]]))
    point = _residual(dense([0.5, 0.3, 0.2]), Laws.point(torch.tensor([2]), 3)).probs()
    assert torch.allclose(point, torch.tensor([[0.625, 0.375, 0]]))


def test_residual_of_equal_laws_is_the_law_itself_not_nan():
    got = _residual(dense([0.25, 0.75]), dense([0.25, 0.75])).probs()
    assert torch.allclose(got, torch.tensor([[0.25, 0.75]]))


def test_laws_cut_to_different_candidates(make_draft):
    target = Laws(torch.tensor([[0.6, 0.4]]).log().expand(2, 2), torch.tensor([[0, 1]] * 2), torch.zeros(2).bool(), 4)
    proposal = Laws(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1, 3]]), torch.zeros(1).bool(), 4)
    noise = NodeNoise(torch.zeros(2, dtype=torch.int64), torch.arange(2))
    got = RULE.accept(make_draft([[3]], law=proposal), target, noise)
    assert got.token_lists() == [[0]], "3 is outside the target's candidates, and the residual holds 0 alone"


@pytest.mark.parametrize("token", [3, 7, -1])
def test_a_drafted_id_that_the_laws_do_not_know_takes_nothing_from_them(make_draft, token):
    """It is never accepted, and what comes instead has the target's whole law, its last token too."""
    rows = 4000
    noise = NodeNoise(torch.arange(rows).repeat_interleave(2), torch.tensor([30, 31]).repeat(rows))
    got = RULE.accept(make_draft([[token]] * rows), dense(*[[0.2, 0.3, 0.5]] * 2 * rows), noise)
    assert set(got.counts) == {0}
    shares = torch.bincount(torch.tensor(got.token_lists())[:, 0], minlength=3) / rows
    assert torch.allclose(shares, torch.tensor([0.2, 0.3, 0.5]), atol=0.04)

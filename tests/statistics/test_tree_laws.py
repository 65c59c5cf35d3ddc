"""Trees under coupled and matched: one pick per node, so nothing is tried twice."""

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws

P = [0.5, 0.3, 0.15, 0.05]
NEXT = [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.4, 0.3, 0.2, 0.1]]


def run(rule, draws, tokens, parents):
    """Emitted token lists of `draws` copies of one tree. After a node of token t the law is NEXT[t]."""
    size = len(tokens)
    depths = [0]
    for parent in parents:
        depths.append(depths[parent + 1] + 1)
    laws = torch.tensor([P] + [NEXT[token] for token in tokens]).log().repeat(draws, 1)
    noise = NodeNoise(torch.arange(draws).repeat_interleave(size + 1), (torch.tensor(depths) + 10).repeat(draws))
    n = draws * size
    draft = Draft(
        torch.tensor(tokens).repeat(draws),
        torch.tensor(parents).repeat(draws),
        tuple(range(0, n + 1, size)),
        torch.ones(n),
        torch.zeros(n, dtype=torch.uint8),
    )
    return acceptance.resolve(rule).accept(draft, Laws.dense(laws), noise).token_lists()


@pytest.mark.parametrize("rule", ["coupled", "matched"])
@pytest.mark.parametrize(
    ("tokens", "parents"),
    [
        ([1], [-1]),
        ([0, 1, 2], [-1, -1, -1]),
        ([1, 1, 0], [-1, -1, -1]),
        ([0, 1, 2, 3], [-1, -1, -1, -1]),
        ([0, 1, 3, 2, 0], [-1, -1, 0, 0, 1]),
    ],
)
def test_first_and_joint_law(rule, tokens, parents, batch, fits):
    rows = run(rule, batch[0], tokens, parents)
    assert fits([row[0] for row in rows], P)
    for first in {token for token, parent in zip(tokens, parents, strict=True) if parent == -1}:
        second = [row[1] for row in rows if row[0] == first]
        assert fits(second, NEXT[first])
    assert all(len(row) >= 2 for row in rows if row[0] in [t for t, p in zip(tokens, parents, strict=True) if p == -1])


def test_emitting_a_child_with_2p_minus_p_squared_is_caught(batch, fits):
    generator = torch.Generator().manual_seed(0)
    tries = torch.multinomial(torch.tensor(P), 2 * batch[0], True, generator=generator).view(2, -1)
    wrong = torch.where(tries[0] == 0, tries[0], tries[1])
    assert not fits(wrong, P)


@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_depth_two_joint_law_with_siblings_at_both_depths(rule, batch, fits):
    tokens, parents = [0, 1, 2, 3, 0, 1, 0, 2], [-1, -1, -1, -1, 0, 0, 1, 2]
    rows = run(rule, batch[0], tokens, parents)
    joint = [P[a] * NEXT[a][b] for a in range(4) for b in range(4)]
    assert fits([4 * row[0] + row[1] for row in rows], joint)

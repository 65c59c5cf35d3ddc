"""The Selector against its formulas in plain Python, and what each constant does."""

import math

import pytest
import torch

from glimpse.cache.recall import RecallBudget, select
from glimpse.cache.selector import Selector, neighbours

BUDGET = RecallBudget(share=0.01, floor=14, sinks=2, recent=4)
PLAIN = Selector(most_prior=0.0, suppression=0.0, exclusivity=0.0)


def weights(length=40, queries=3, heads=2, layers=2, seed=0):
    made = torch.rand(layers, heads, queries, length, generator=torch.Generator().manual_seed(seed)) ** 4
    return made / made.sum(-1, keepdim=True)


def by_hand(selector, w, norms, layer):
    """z of one layer, [heads][J], by loops over the module's formulas."""
    heads, queries, count = w[layer].shape
    found = []
    for head in range(heads):
        shares = [[float(x) for x in row] for row in w[layer][head]]
        shares = [[x / sum(row) for x in row] for row in shares]
        f = [(sum(row[j] ** selector.power for row in shares) / queries) ** (1 / selector.power) for j in range(count)]
        f = [x / sum(f) for x in f]
        u = [j / (count - 1) for j in range(count)]
        r = [
            float(norms[layer][head][j]) ** -selector.key_norm
            * math.exp(-selector.age * u[j] ** selector.age_power)
            * (1 - u[j] + 1e-9) ** selector.end
            for j in range(count)
        ]
        r = [x / sum(r) for x in r]
        ff, fr, rr = (sum(x * y for x, y in zip(a, b, strict=True)) for a, b in ((f, f), (f, r), (r, r)))
        share = min(max((ff - fr) / (ff - 2 * fr + rr), 0), selector.most_prior)
        z = [math.log((1 - share) * x + share * y + 1e-9) for x, y in zip(f, r, strict=True)]
        near = [max(z[max(0, j - selector.reach) : j] + z[j + 1 : j + 1 + selector.reach]) for j in range(count)]
        found.append([x - selector.suppression * max(0.0, n - x) for x, n in zip(z, near, strict=True)])
    totals = [math.log(sum(math.exp(row[j]) for row in found)) for j in range(count)]
    return [[x + selector.exclusivity * (x - total) for x, total in zip(row, totals, strict=True)] for row in found]


@pytest.mark.parametrize(
    "selector",
    [Selector(), Selector(power=0.5, key_norm=0.7, age=1.5, age_power=2.0, end=0.5, reach=3),
     Selector(most_prior=1.0, key_norm=1.0)],
)  # fmt: skip
def test_the_formulas(selector):
    w, norms = weights(), 0.5 + torch.rand(2, 2, 40, generator=torch.Generator().manual_seed(3))
    got = selector.scores(w, norms)
    for layer in range(2):
        assert torch.allclose(got[layer], torch.tensor(by_hand(selector, w, norms, layer)), atol=2e-4)


def test_without_prior_and_suppression_it_is_plain_top_k():
    w = weights(queries=1)
    assert torch.equal(PLAIN.select(w, None, BUDGET), select(w.sum(2), BUDGET))


def test_sinks_recent_and_as_many_as_the_budget():
    got = Selector().select(weights(length=60), None, BUDGET)
    assert got.shape == (2, 2, 14)
    for row in got.flatten(0, 1).tolist():
        assert row == sorted(set(row))
        assert {0, 1, 56, 57, 58, 59} <= set(row)


def test_a_budget_as_long_as_the_context_gives_all():
    got = Selector().select(weights(length=12), None, BUDGET)
    assert got.tolist() == [[list(range(12))] * 2] * 2


def test_suppression_spreads_what_is_chosen():
    w = torch.full((1, 1, 1, 40), 1e-3)
    w[..., 10:14] = torch.tensor([0.2, 0.18, 0.17, 0.16])
    w[..., 30] = 0.15
    budget = RecallBudget(share=0.01, floor=8, sinks=2, recent=4)
    assert set(PLAIN.select(w, None, budget)[0, 0].tolist()) >= {10, 11}
    spread = Selector(most_prior=0.0, suppression=5.0, exclusivity=0.0).select(w, None, budget)[0, 0].tolist()
    assert {10, 30} <= set(spread)


def test_exclusivity_parts_the_heads():
    w = torch.full((1, 2, 1, 40), 1e-3)
    w[0, 0, 0, 10], w[0, 1, 0, 10] = 0.5, 0.01
    w[0, :, 0, 20] = 0.009
    budget = RecallBudget(share=0.01, floor=7, sinks=2, recent=4)
    alone = Selector(most_prior=0.0, suppression=0.0, exclusivity=0.0).select(w, None, budget)
    apart = Selector(most_prior=0.0, suppression=0.0, exclusivity=0.35).select(w, None, budget)
    assert [10 in row for row in alone[0].tolist()] == [True, True]
    assert [10 in row for row in apart[0].tolist()] == [True, False]


def test_neighbours():
    z = torch.tensor([[1.0, 5.0, 2.0, 3.0]])
    assert neighbours(z, 1).tolist() == [[5.0, 2.0, 5.0, 2.0]]
    assert neighbours(z, 9).tolist() == [[5.0, 3.0, 5.0, 5.0]]
    assert neighbours(z[:, :1], 1).tolist() == [[-torch.inf]]


def test_weights_of_nothing_but_zeros_are_no_trouble():
    assert torch.isfinite(Selector(key_norm=1.0).scores(torch.zeros(1, 1, 2, 9), torch.ones(1, 1, 9))).all()


def test_where_attention_says_nothing_late_positions_are_chosen():
    """b = -4, as fitted; 0 has no preference."""
    even = torch.full((1, 2, 1, 60), 1 / 60)
    got = Selector().select(even, None, BUDGET)[0, 0].tolist()
    inside = BUDGET.positions(60) - BUDGET.sinks - BUDGET.recent
    first = 60 - BUDGET.recent - inside
    assert got == [*range(BUDGET.sinks), *range(first, 60)]
    prior = Selector(age=0.0, most_prior=1.0).scores(even, None)
    assert torch.allclose(prior, prior[..., :1].expand_as(prior))

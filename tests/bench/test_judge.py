"""Near ties: the margin is what it takes to change the pick, and a real difference is far from it."""

import pytest
import torch

from glimpse.bench.judge import distance
from glimpse.sampling import Nodes, Role, Sampler, SamplingParams, pick

VOCAB, PROMPT, BEFORE = 40, [3, 5], [7]
AT = len(PROMPT) + len(BEFORE)


def picked(logits, params):
    sampler = Sampler(1, VOCAB)
    sampler.admit(0, params, PROMPT, ())
    sampler.commit(0, BEFORE)
    nodes = Nodes.plain([0], [AT], [1])
    return int(pick(sampler.laws(logits, nodes), sampler.seeds_of(nodes), nodes.position, Role.TARGET))


def margin(logits, mine, other, params):
    return distance(logits, PROMPT, BEFORE, mine, other, params, vocab=VOCAB)


def draw(seed):
    return 2 * torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(seed))


def test_greedy_margin_is_the_gap_of_the_logits():
    logits = draw(0)
    best, second = logits[0].topk(2).indices.tolist()
    gap = float(logits[0, best] - logits[0, second])
    assert margin(logits, best, second, SamplingParams(temperature=0).resolve({})) == pytest.approx(gap, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"temperature": 0.8}, {"frequency_penalty": 0.5, "repetition_penalty": 1.1}])
def test_changing_the_logits_by_the_margin_changes_the_pick(seed, options):
    params = SamplingParams(seed=seed, **options).resolve({})
    logits = draw(seed)
    mine = picked(logits, params)
    others = [token for token in range(VOCAB) if token not in (mine, *PROMPT, *BEFORE)]
    away = {token: margin(logits, mine, token, params) for token in others}
    nearest = min(away, key=away.get)
    scale = params.temperature
    for factor, expected in ((0.98, mine), (1.02, nearest)):
        moved = logits.clone()
        moved[0, nearest] += factor * away[nearest] * scale
        assert picked(moved, params) == expected


def test_a_token_just_outside_top_k_is_a_near_tie():
    logits = torch.full((1, VOCAB), -5.0)
    logits[0, :3] = torch.tensor([1.0, 0.5, 0.5 - 1e-6])
    params = SamplingParams(top_k=2, seed=1).resolve({})
    assert margin(logits, 1, 2, params) == pytest.approx(1e-6, rel=0.2)


def test_a_top_p_boundary_is_a_near_tie_and_a_cut_token_far_from_it_is_not():
    p = torch.full((1, VOCAB), 1e-9)
    p[0, :4] = torch.tensor([0.5, 0.3 - 2e-6, 0.15, 0.05])
    params = SamplingParams(top_p=0.8, seed=1).resolve({})
    assert margin(p.log(), 0, 2, params) < 1e-5 or margin(p.log(), 2, 0, params) < 1e-5
    assert margin(p.log(), 0, 20, params) > 1.0

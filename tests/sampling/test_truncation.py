"""min_p, top_k and top_p against a naive full sort, on easy and on nasty scores."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glimpse.sampling.truncation import Cuts, first_width, ranking, truncate

INF = math.inf


def cuts(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, rows=1):
    double = {"dtype": torch.float64}
    return Cuts(
        torch.full((rows,), temperature, **double),
        torch.full((rows,), top_k or 1 << 40),
        torch.full((rows,), top_p if top_p < 1 else INF, **double),
        torch.full((rows,), min_p, **double).log(),
    )


def naive(scores, temperature, top_k, top_p, min_p):
    """(probabilities by token, smallest distance of any decision from its boundary), with lists and float64 only."""
    peak = max(scores)
    ranked = sorted((-s, token) for token, s in enumerate(scores) if s > -INF)
    weight = {token: math.exp((-s - peak) / temperature) for s, token in ranked}
    slack = min((abs(w - min_p) for w in weight.values()), default=1.0) if min_p else 1.0
    kept = [token for token in weight if weight[token] >= min_p]
    kept = kept[:top_k] if top_k else kept
    if top_p < 1:
        whole, mass, nucleus = sum(weight[token] for token in kept), 0.0, []
        for token in kept:
            nucleus.append(token)
            mass += weight[token]
            slack = min(slack, abs(mass / whole - top_p))
            if mass / whole >= top_p:
                break
        kept = nucleus
    whole = sum(weight[token] for token in kept)
    return {token: weight[token] / whole for token in kept}, slack


def law_of(ids, logp):
    return {token: math.exp(p) for token, p in zip(ids.tolist(), logp.tolist(), strict=True) if p > -INF}


def scores_of(kind, vocab, seed):
    made = torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * 3
    if kind == "coarse":
        made = made.mul(2).round().div(2)
    elif kind == "flat":
        made = torch.zeros(vocab)
    elif kind == "masked":
        made[torch.randperm(vocab, generator=torch.Generator().manual_seed(seed))[: vocab - 3]] = -INF
    return made


@settings(max_examples=250, deadline=None)
@given(
    kind=st.sampled_from(["smooth", "coarse", "flat", "masked"]),
    vocab=st.sampled_from([4, 5, 97, 700]),
    seed=st.integers(0, 10_000),
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 2, 3, 50, 300]),
    top_p=st.sampled_from([1.0, 0.95, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    width=st.sampled_from([1, 2, 7, 64, 1000]),
)
def test_equal_to_a_naive_sort(kind, vocab, seed, temperature, top_k, top_p, min_p, width):
    scores = scores_of(kind, vocab, seed)
    top_k = top_k if top_k < vocab else 0
    right, slack = naive(scores.double().tolist(), temperature, top_k, top_p, min_p)
    # Within rounding of a boundary either answer is right; the peak's own weight of 1 is exact and stays in.
    assume(slack > 1e-6 or (min_p == 1.0 and top_p == 1.0))
    ids, logp = truncate(scores[None], cuts(temperature, top_k, top_p, min_p), max(width, top_k + 1))
    got = law_of(ids[0], logp[0])
    assert set(got) == set(right)
    assert got == pytest.approx(right, abs=1e-5)


def test_top_p_is_minimal_and_never_empty():
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    for top_p, right in [(0.001, 1), (0.499, 1), (0.51, 2), (0.79, 2), (0.81, 3), (0.94, 3), (0.96, 4)]:
        ids, _ = truncate(p.log(), cuts(top_p=top_p), 2)
        assert ids[0].tolist() == list(range(right)), top_p


def test_top_p_counts_the_mass_that_top_k_left():
    p = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    # 0.4 / 0.7 = 0.571 of what top-2 leaves: enough for 0.55, where of the whole it would be too little.
    assert truncate(p.log(), cuts(top_k=2, top_p=0.55), 3)[0].shape == (1, 1)
    assert truncate(p.log(), cuts(top_p=0.55), 3)[0].shape == (1, 2)


def test_vector_v4_min_p():
    p = torch.tensor([[0.60, 0.30, 0.08, 0.02]])
    ids, logp = truncate(p.log(), cuts(min_p=0.2), first_width(0))
    assert law_of(ids[0], logp[0]) == pytest.approx({0: 2 / 3, 1: 1 / 3}, abs=1e-6)


def test_ties_at_the_boundary_go_to_the_lowest_ids():
    scores = torch.zeros(1, 5000)
    scores[0, 4000:] = 1.0
    for width in (11, 64, 5000):
        ids, logp = truncate(scores, cuts(top_k=10), width)
        assert ids[0].tolist() == list(range(4000, 4010)), width
        assert logp.exp()[0].tolist() == pytest.approx([0.1] * 10)


def test_rows_are_cut_alike_alone_and_together():
    scores = torch.stack([scores_of(kind, 3000, 5) for kind in ("smooth", "coarse", "flat", "masked")])
    mixed = Cuts(
        torch.tensor([0.7, 1.0, 1.3, 1.0], dtype=torch.float64),
        torch.tensor([50, 1 << 40, 1 << 40, 200]),
        torch.tensor([0.9, 0.99, 0.6, INF], dtype=torch.float64),
        torch.tensor([0.0, 0.0, 0.0, 0.05], dtype=torch.float64).log(),
    )
    ids, logp = truncate(scores, mixed, 214)
    for row in range(4):
        own_ids, own_logp = truncate(scores[row : row + 1], mixed.select(torch.tensor([row])), first_width(0))
        width = own_ids.shape[1]
        assert torch.equal(ids[row, :width], own_ids[0])
        assert torch.equal(logp[row, :width], own_logp[0])
        assert (logp[row, width:] == -INF).all()


def test_temperature_near_zero_does_not_overflow():
    scores = torch.tensor([[300.0, -200.0, 299.0]])
    ids, logp = truncate(scores, cuts(temperature=1e-40, top_p=0.9), 2)
    assert law_of(ids[0], logp[0]) == {0: 1.0}


def test_ranking_is_canonical():
    scores = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0, 2.0]])
    for width in (5, 6):
        assert ranking(scores, width)[1][0, :5].tolist() == [1, 2, 4, 5, 0]

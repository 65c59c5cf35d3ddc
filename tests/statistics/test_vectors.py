"""The number vectors V1, V2, V4 and the cases built on them; the tests must also catch the known wrong variants."""

import pytest
import torch

from glimpse import acceptance
from glimpse.sampling import Laws, Nodes, Role, Sampler, SamplingParams, pick

V1_P, V1_Q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
V2_P, V2_Q, V2_DRAWN = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0, 0, 3 / 7, 4 / 7]
V4_P, V4_RIGHT = [0.60, 0.30, 0.08, 0.02], [2 / 3, 1 / 3, 0, 0]


def laws_of(p, count):
    return Laws.dense(torch.tensor(p).log().expand(count, -1))


def first_tokens(rule, batch, p, tokens, law=None):
    """The first emitted token of each draw: a draft of one token, the target's law p before and after it."""
    draws, chains, noise_of = batch
    accepted = acceptance.resolve(rule).accept(chains(tokens[:, None], law), laws_of(p, 2 * draws), noise_of(draws, 1))
    return [row[0] for row in accepted.token_lists()]


def drawn(batch, q):
    """Draft tokens drawn from q, and the laws that say so."""
    draws, _, _ = batch
    law = laws_of(q, draws)
    return pick(law, torch.arange(draws), torch.full((draws,), 10), Role.DRAFT, 10), law


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_v1_and_a07_a_deterministic_draft(rule, batch, fits):
    got = first_tokens(rule, batch, V1_P, torch.full((batch[0],), 2))
    assert fits(got, V1_P)


def test_v1_wrong_variants_are_caught(batch, fits):
    draws = batch[0]
    always_two = torch.full((draws,), 2)
    scored_with_q = first_tokens("rejection", batch, V1_P, always_two, laws_of(V1_Q, draws))
    assert fits(scored_with_q, [0.6, 0, 0.4]), "the wrong law that V1 predicts"
    assert not fits(scored_with_q, V1_P)
    u = torch.rand(draws, generator=torch.Generator().manual_seed(0))
    again = torch.multinomial(torch.tensor(V1_P), draws, True, generator=torch.Generator().manual_seed(1))
    resampled_from_p = torch.where(u < V1_P[2], always_two, again)
    assert not fits(resampled_from_p, V1_P)


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_v2_and_a08_a_truncated_draft(rule, batch, fits):
    tokens, law = drawn(batch, V2_DRAWN)
    assert fits(tokens, V2_DRAWN)
    assert fits(first_tokens(rule, batch, V2_P, tokens, law), V2_P)


def test_v2_raw_q_in_the_ratio_is_caught(batch, fits):
    tokens, _ = drawn(batch, V2_DRAWN)
    wrong = first_tokens("rejection", batch, V2_P, tokens, laws_of(V2_Q, batch[0]))
    assert fits(wrong, [0.4286, 0.1429, 0.2857, 0.1428])
    assert not fits(wrong, V2_P)


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_a09_an_unlikely_draft_is_accepted_as_often_as_it_is_likely(rule, batch):
    p = [0.0008, 0.5, 0.4992]
    got = first_tokens(rule, batch, p, torch.zeros(batch[0], dtype=torch.int64))
    assert 4 <= got.count(0) <= 32, "16 of 20,000 are right, 4 standard deviations allowed"


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
@pytest.mark.parametrize(
    ("logits", "options", "right"),
    [
        (V4_P, {"min_p": 0.2}, V4_RIGHT),
        ([0.25] * 4, {"logit_bias": {2: -100.0}}, [1 / 3, 1 / 3, 0, 1 / 3]),
        ([0.25] * 4, {"suppress_tokens": [2]}, [1 / 3, 1 / 3, 0, 1 / 3]),
        (V4_P, {"temperature": 0.3, "top_p": 0.5}, [1, 0, 0, 0]),
    ],
)
def test_v4_a10_a16_a19_verified_tokens_are_filtered(rule, batch, fits, logits, options, right):
    draws, chains, noise_of = batch
    sampler = Sampler(1, 4)
    sampler.admit(0, SamplingParams(**options).resolve({}), [0], [])
    nodes = Nodes.verifying([0], [1], [0], [2], [-1], [0, 1])
    laws = sampler.laws(torch.tensor(logits).log().expand(2, -1), nodes).select(torch.tensor([0, 1] * draws))
    draft = chains(torch.full((draws, 1), 2))
    accepted = acceptance.resolve(rule).accept(draft, laws, noise_of(draws, 1))
    first = [row[0] for row in accepted.token_lists()]
    assert first.count(2) == 0
    assert fits(first, right)

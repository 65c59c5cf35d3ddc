"""Penalties, bias and masks: at each node, from the prefix that it would have."""

import math

import pytest
import torch

from glimpse.sampling import Nodes, Sampler, SamplingParams

VOCAB = 12
EOS = [0, 1]


def sampler_of(prompt, **values):
    sampler = Sampler(1, VOCAB)
    sampler.admit(0, SamplingParams(**values).resolve({}), prompt, EOS)
    return sampler


def scores_at(sampler, logits, draft, *, length=5, generated=0, parents=None):
    parents = list(range(-1, len(draft) - 1)) if parents is None else parents
    nodes = Nodes.verifying([0], [length], [generated], draft, parents, [0, len(draft)])
    return sampler._scores(logits.expand(len(draft) + 1, -1), nodes)


def forbidden(scores):
    return [set((row == -math.inf).nonzero().flatten().tolist()) for row in scores]


def test_vector_v3_frequency_penalty_inside_a_block():
    logits = torch.full((1, VOCAB), -5.0)
    logits[0, 2], logits[0, 3] = 2.0, 1.9
    sampler = sampler_of([9], temperature=0, frequency_penalty=0.5)
    out = []
    for _ in range(4):
        token = int(scores_at(sampler, logits, [], generated=len(out)).argmax())
        sampler.commit(0, [token])
        out.append(token)
    assert out == [2, 3, 2, 3]
    fresh = sampler_of([9], temperature=0, frequency_penalty=0.5)
    # After each A of the draft [A, A, A, A] the target wants B: the nodes see the A that led to them.
    assert scores_at(fresh, logits, [2, 2, 2, 2]).argmax(1).tolist() == [2, 3, 3, 3, 3]
    assert scores_at(fresh, logits, [2, 3, 2, 3]).argmax(1).tolist() == [2, 3, 2, 3, 2]


@pytest.mark.parametrize("penalty", [-2.0, 0.0, 2.0])
def test_case_a15_frequency_penalty_counts_output_only(penalty):
    logits = torch.zeros(1, VOCAB)
    sampler = sampler_of([4, 4, 4], frequency_penalty=penalty)
    sampler.commit(0, [4])
    got = scores_at(sampler, logits, [4, 4, 4, 4])[:, 4]
    assert got.tolist() == [-penalty * count for count in (1, 2, 3, 4, 5)]


def test_presence_penalty_does_not_count():
    logits = torch.zeros(1, VOCAB)
    got = scores_at(sampler_of([4], presence_penalty=0.5), logits, [4, 4, 5])
    assert got[:, 4].tolist() == [0, -0.5, -0.5, -0.5]
    assert got[:, 5].tolist() == [0, 0, 0, -0.5]


def test_repetition_penalty_as_in_transformers():
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(2))
    prompt, committed, draft = [3, 4], [5], [6, 3, 7]
    sampler = sampler_of(prompt, repetition_penalty=1.3)
    sampler.commit(0, committed)
    got = scores_at(sampler, logits, draft)
    theirs = RepetitionPenaltyLogitsProcessor(1.3)
    for node in range(4):
        text = torch.tensor([prompt + committed + draft[:node]])
        assert torch.allclose(got[node : node + 1], theirs(text, logits.clone()), atol=1e-6)


def test_penalties_see_the_ancestors_of_a_tree_not_its_siblings():
    logits = torch.zeros(1, VOCAB)
    got = scores_at(sampler_of([9], presence_penalty=1.0), logits, [2, 3, 4, 5], parents=[-1, -1, 0, 1])
    written = [set((row < 0).nonzero().flatten().tolist()) for row in got]
    assert written == [set(), {2}, {3}, {2, 4}, {3, 5}]


def test_order_repetition_before_frequency_before_bias():
    logits = torch.full((1, VOCAB), 2.0)
    sampler = sampler_of(
        [9], repetition_penalty=2.0, frequency_penalty=0.25, presence_penalty=0.5, logit_bias={9: 4, 4: 3}
    )
    sampler.commit(0, [4, 4])
    got = scores_at(sampler, logits, [])[0]
    assert float(got[4]) == 2.0 / 2 - 2 * 0.25 - 0.5 + 3
    assert float(got[9]) == 2.0 / 2 + 4
    assert float(got[5]) == 2.0


def test_masks_win_over_bias():
    logits = torch.zeros(1, VOCAB)
    got = scores_at(sampler_of([9], logit_bias={4: 100.0}, suppress_tokens=[4]), logits, [4])
    assert forbidden(got) == [{4}, {4}]


def test_cases_a20_and_a26_min_tokens_masks_every_end():
    logits = torch.zeros(1, VOCAB)
    sampler = sampler_of([9], min_tokens=3, stop_token_ids=[7], ignore_eos=True)
    ends = {0, 1, 7}
    assert forbidden(scores_at(sampler, logits, [2, 2, 2, 2], generated=1)) == [ends, ends, set(), set(), set()]
    assert forbidden(scores_at(sampler, logits, [], generated=3)) == [set()]


@pytest.mark.parametrize(
    ("committed", "draft", "right"),
    [
        ([], [5, 6, 7], [set(), set(), {7}, set()]),  # wholly in the block
        ([5], [6, 7, 8], [set(), {7}, set(), set()]),  # across its start
        ([5, 6], [7, 8], [{7}, set(), set()]),  # wholly committed
        ([8], [8, 5, 6], [set(), set(), set(), {7}]),  # completed by the bonus token
        ([6, 5], [5, 6], [set(), set(), {7}]),
        ([7, 6], [5, 7], [set(), set(), set()]),
    ],
)
def test_case_a18_bad_words_of_several_tokens(committed, draft, right):
    sampler = sampler_of([9], bad_words=[[5, 6, 7]])
    sampler.commit(0, committed)
    assert forbidden(scores_at(sampler, torch.zeros(1, VOCAB), draft)) == right


def test_bad_words_reach_into_the_prompt():
    assert forbidden(scores_at(sampler_of([9, 5, 6], bad_words=[[5, 6, 7]]), torch.zeros(1, VOCAB), [])) == [{7}]


def test_bad_words_of_different_lengths_and_branches():
    sampler = sampler_of([2], bad_words=[[3], [2, 4], [2, 5, 6], [2, 5, 7]])
    got = scores_at(sampler, torch.zeros(1, VOCAB), [5, 4, 2], parents=[-1, -1, 0])
    assert forbidden(got) == [{3, 4}, {3, 6, 7}, {3}, {3, 4}]


def test_drafting_nodes_see_the_whole_draft():
    sampler = sampler_of([9], frequency_penalty=1.0, bad_words=[[4, 5, 6]])
    got = sampler._scores(torch.zeros(1, VOCAB), Nodes.drafting([0], [5], [0], [[4, 5]]))
    assert got[0, :6].tolist() == [0, 0, 0, 0, -1, -1]
    assert forbidden(got) == [{6}]

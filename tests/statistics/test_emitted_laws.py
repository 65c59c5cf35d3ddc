"""Every rule x every kind of draft x every option: the emitted tokens follow the target's law."""

import pytest
import torch

from glimpse import acceptance
from glimpse.sampling import Laws, Nodes, Sampler, SamplingParams, draft_salt, pick

VOCAB = 6
PROMPT = [1, 5]
FIRST = len(PROMPT) + 1
COMMITTED = [4]
TARGET = [1.2, 0.8, -0.5, 0.3, 1.0, -1.0]
AFTER = [[0.5 * ((3 * token + other) % 5) - 0.8 for other in range(VOCAB)] for token in range(VOCAB)]
DRAFT = [0.2, 1.1, 0.4, -0.6, 1.4, 0.1]

OPTIONS = {
    "plain": {},
    "temperature": {"temperature": 0.6},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.3},
    "penalties": {"repetition_penalty": 1.4, "frequency_penalty": 0.7, "presence_penalty": 0.3},
    "bias": {"logit_bias": {2: 1.5, 0: -1.0}, "suppress_tokens": [3]},
    "all": {
        "temperature": 0.8, "top_k": 5, "top_p": 0.92, "min_p": 0.05, "repetition_penalty": 1.2,
        "frequency_penalty": 0.4, "presence_penalty": -0.3, "logit_bias": {2: 0.7},
    },
    "greedy": {"temperature": 0},
}  # fmt: skip


def sampler_of(options):
    sampler = Sampler(1, VOCAB)
    sampler.admit(0, SamplingParams(**options).resolve({}), PROMPT, [])
    sampler.commit(0, COMMITTED)
    return sampler


def own_draft(sampler, draws, role):
    """One token a draw from the draft's own law under the same options."""
    nodes = Nodes.drafting([0], [FIRST], [1], [[]])
    law = sampler.laws(torch.tensor([DRAFT]), nodes).select(torch.zeros(draws, dtype=torch.int64))
    at = torch.full((draws,), FIRST)
    return pick(law, torch.arange(draws), at, role, draft_salt(role, at)), law


def target_laws(sampler, tokens):
    """The laws before and after each drafted token, laid end to end."""
    kinds = []
    for token in range(VOCAB):
        nodes = Nodes.verifying([0], [FIRST], [1], [token], [-1], [0, 1])
        kinds.append(sampler.laws(torch.tensor([TARGET, AFTER[token]]), nodes))
    every = Laws.cat(kinds)
    return every.select(torch.stack([2 * tokens, 2 * tokens + 1], 1).flatten())


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
@pytest.mark.parametrize("drafter", ["deterministic", "own law"])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_emitted_law(rule, drafter, name, batch, fits, law_by_hand):
    draws, chains, noise_of = batch
    options, acceptor = OPTIONS[name], acceptance.resolve(rule)
    sampler = sampler_of(options)
    if drafter == "own law":
        tokens, q = own_draft(sampler, draws, acceptor.draft_role)
        law = q if acceptor.needs_law else None
    else:
        tokens, law = torch.full((draws,), 1), None
    accepted = acceptor.accept(chains(tokens[:, None], law), target_laws(sampler, tokens), noise_of(draws, 1, FIRST))
    rows = accepted.token_lists()
    p = law_by_hand(TARGET, PROMPT, COMMITTED, **options)
    assert fits([row[0] for row in rows], p)
    for token in range(VOCAB):
        second = [row[1] for row in rows if len(row) == 2 and row[0] == token]
        if len(second) > 200:
            assert fits(second, law_by_hand(AFTER[token], PROMPT, [*COMMITTED, token], **options)), token


def test_a_law_from_other_options_would_be_caught(batch, fits, law_by_hand):
    """The test has teeth: dropping a penalty, or top_p from the verified tokens, is seen."""
    draws, chains, noise_of = batch
    for name in ("penalties", "top_p", "min_p", "bias", "temperature"):
        sampler, tokens = sampler_of({}), torch.full((draws,), 1)
        accepted = acceptance.resolve("matched").accept(
            chains(tokens[:, None]), target_laws(sampler, tokens), noise_of(draws, 1, FIRST)
        )
        wrong = [row[0] for row in accepted.token_lists()]
        assert not fits(wrong, law_by_hand(TARGET, PROMPT, COMMITTED, **OPTIONS[name])), name

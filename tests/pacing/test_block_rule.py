"""Rules by which blocks are cut, foretold: they are the pacer's own chances and the marginal criterion."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.pacing.block_rule import CutRule, chain_of
from glimpse.pacing.libra import ALPHA, search
from glimpse.pacing.proposals import Trust
from glimpse.pacing.worth import worthwhile

SAID = np.array([0.9, 0.5, 0.3, 0.95, 0.001, 0.8])


def taught(rounds=30):
    """Trust in a source that is surer than it is right, of deep tokens more so."""
    trust, draw = Trust(), np.random.default_rng(3)
    for _ in range(rounds):
        said = draw.random(6)
        right = int(draw.integers(0, 5))
        tokens = list(range(10, 16))
        trust.learn(chain_of(tokens, said.tolist()), [*tokens[:right], 99])
    return trust


@pytest.mark.parametrize("rounds", [0, 30])
def test_the_length_is_that_of_the_pacers_chances(rounds):
    trust, proposal = taught(rounds), chain_of([1, 2, 3, 4, 5, 6], SAID.tolist())
    reach = proposal.along(trust.chances(proposal))
    for floor in (0.0, *(reach + 1e-9), *(reach - 1e-9), 2.0):
        assert CutRule.of(trust, floor).length(SAID) == int((reach >= floor).sum())


@pytest.mark.parametrize("rounds", [0, 30])
def test_with_a_constant_it_is_libraspecs_search(rounds):
    """Of the whole block; of none there is nothing to search."""
    trust = taught(rounds)
    found = []
    for count in range(len(SAID) + 1):
        proposal = chain_of([1, 2, 3, 4, 5, 6][:count], SAID[:count].tolist())
        chances = trust.chances(proposal)
        found.append(CutRule.of(trust, 0.0, ALPHA).length(SAID[:count]))
        assert found[-1] == search(chances, ALPHA, count, count)[0]
    assert found[0] == 0
    assert 0 < found[-1] < len(SAID)


def test_the_floor_is_the_criterions_own():
    """At the rate that the best nodes of this very step reach, the rule keeps those nodes."""
    trust, prices, seconds = taught(), np.array([0.05, 0.12]), 1.0
    chains = [chain_of([1, 2, 3, 4, 5, 6], said.tolist()) for said in (SAID, SAID[::-1])]
    gains = [chain.along(trust.chances(chain)) for chain in chains]
    kept = [len(nodes) for nodes in worthwhile(gains, prices, 2, (seconds, seconds))]
    rate = (2 + sum(gain[:count].sum() for gain, count in zip(gains, kept, strict=True))) / (seconds + kept @ prices)
    rules = [CutRule.of(trust, rate * price) for price in prices]
    assert [rule.length(chain.said) for rule, chain in zip(rules, chains, strict=True)] == kept
    assert 0 < sum(kept) < 12

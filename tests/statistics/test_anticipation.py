"""Dropping a drafted token after having seen it: exact under coupled and matched, biased under rejection.

The example: target (.7, .3), drafts drawn from (.5, .5), and only drafts of token 0 are kept for verification.
"""

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws, draft_salt, pick

TARGET, PROPOSAL = [0.7, 0.3], [0.5, 0.5]
POSITION = 10


def pruned(rule, draws, *, certain=False):
    """First emitted tokens; `certain` scores the kept drafts as a deterministic proposal's."""
    acceptor = acceptance.resolve(rule)
    law = Laws.dense(torch.tensor(PROPOSAL).log().expand(draws, -1))
    seeds, positions = torch.arange(draws), torch.full((draws,), POSITION)
    tokens = pick(law, seeds, positions, acceptor.draft_role, draft_salt(acceptor.draft_role, positions))
    kept = tokens == 0
    offsets = (0, *kept.cumsum(0).tolist())
    n = offsets[-1]
    q = law.select(kept) if acceptor.needs_law and not certain else None
    draft = Draft(tokens[kept], torch.full((n,), -1), offsets, torch.ones(n), torch.zeros(n, dtype=torch.uint8), q)
    node_rows = torch.repeat_interleave(seeds, kept.long() + 1)
    depth = torch.cat([torch.zeros(1), (node_rows.diff() == 0).float()]).long()
    laws = Laws.dense(torch.tensor(TARGET).log().expand(draws + n, -1))
    accepted = acceptor.accept(draft, laws, NodeNoise(node_rows, depth + POSITION))
    return [row[0] for row in accepted.token_lists()]


@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_pick_rules_are_exact_however_drafts_are_pruned(rule, batch, fits):
    assert fits(pruned(rule, batch[0]), TARGET)


def test_rejection_is_biased_as_predicted(batch, fits):
    got = pruned("rejection", batch[0])
    assert fits(got, [0.85, 0.15])
    assert not fits(got, TARGET)


def test_rejection_of_a_certain_proposal_survives_pruning_independent_of_acceptance(batch, fits):
    # Kept drafts are always token 0, so scored as a deterministic proposal they are exact.
    assert fits(pruned("rejection", batch[0], certain=True), TARGET)

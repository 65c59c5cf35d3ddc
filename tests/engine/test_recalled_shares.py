"""What drafts read of the context is told with the output."""

from __future__ import annotations

import pytest

from small_llm import GREEDY, IDS


def recalled(llm):
    return llm.generate([IDS], GREEDY)[0].speculation.recalled


@pytest.mark.parametrize("drafter", ["sparse", "refresh"])
def test_drafts_that_read_a_part_tell_which(tiny, drafter):
    llm = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=3, budget=0.1, budget_floor=40)
    shares = recalled(llm)
    assert len(shares) == 64
    assert sum(shares) == pytest.approx(1)
    # Sinks and the 32 latest positions are in every set of 40 of about 110: at both ends more than an even share.
    assert shares[0] > 1 / 64
    assert sum(shares[-16:]) > 0.5


@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_drafts_that_read_nothing_tell_nothing(tiny, drafter):
    assert recalled(tiny.variant(drafter=drafter)) is None

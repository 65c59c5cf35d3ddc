"""The predicted speedup: what prices of steps make of the drafts that were accepted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from glimpse.cache.recall import RecallBudget
from glimpse.compare import predicted_speedup
from glimpse.outputs import GenerationOutput, Timing, Usage
from glimpse.pacing.costs import StepCosts
from glimpse.speculation import Speculation


def predicted(speculation, seconds_per, *, forwards):
    """For an output whose middle is at 1,000 tokens; a draft reads 256 positions."""
    parts = SimpleNamespace(
        costs=StepCosts(1, 1, 1e12, start=seconds_per),
        budget=RecallBudget(share=0.1, floor=256),
        drafter=SimpleNamespace(needs_forward=forwards),
    )
    output = GenerationOutput(
        text="", token_ids=(), finish_reason="length", usage=Usage(990, 20), speculation=speculation,
        timing=Timing(0.0, 1.0, 20), settings={},
    )  # fmt: skip
    return predicted_speedup(parts, output)


def test_arithmetic_of_a_wide_verification_counts():
    """A step takes 2 s and every token 1 s: a plain step 3, a verification of 4 drafts 7. 3 rounds and a plain step."""
    speculation = Speculation("lookup")
    for accepted in (4, 2, 0):
        speculation.record(4, accepted)
    speculation.record(0, 0)
    found = predicted(speculation, (2, 1, 0, 0, 0, 0, 0, 0, 0), forwards=False)
    assert found == pytest.approx((6 + 3 + 1) * 3 / (3 * 7 + 3))


def test_draft_steps_cost_what_they_read_and_every_round_its_recall_set():
    """1 s a step, 1 ms a position read, 2 s a recall set: plain 2 s, verification of 2 drafts 3.002, a draft 1.256."""
    speculation = Speculation("sparse", draft_steps=2)
    speculation.record(2, 2)
    found = predicted(speculation, (1, 0, 0, 1e-3, 1e-3, 0, 2, 0, 0), forwards=True)
    assert found == pytest.approx(3 * 2 / (1 + 1.002 + 2 + 2 * 1.256))


def test_nothing_decoded_predicts_nothing():
    assert predicted(Speculation("lookup"), (1, 0, 0, 0, 0, 0, 0, 0, 0), forwards=False) is None

"""The pacer `auto`, replayed on texts that are known: it finds who pays, keeps its promise, and stays within its means.

The clock stands still, so that the host costs nothing and every run is the same.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.auto_replay import Replay, arm
from benchmarks.retrieval_acceptance import Answer
from tests.drafting.histories import rows_of

from glimpse.drafting.auto import PLAIN
from glimpse.drafting.none import NoDrafter
from glimpse.drafting.suffix.store import SuffixStore
from glimpse.errors import ArgumentError
from glimpse.pacing.auto import REACH, AutoPacer
from glimpse.pacing.auto_lookout import STRETCH
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.entropy import EntropyPacer
from glimpse.pacing.pacer import PaceContext

VOCAB = 20_000
pytestmark = pytest.mark.usefixtures("still")


def answer(prompt: list[int], output: list[int]) -> Answer:
    """A text whose logits say nothing: successors that never come."""
    ids = prompt + output
    return Answer(
        "made", "made", len(prompt), ids, np.full((len(ids), 8), VOCAB + 1), np.full((len(ids), 8), 0.01, np.float32)
    )


def fresh(count: int, seed: int) -> list[int]:
    return [random.Random(f"{seed} {place}").randrange(VOCAB) for place in range(count)]


def replay(made: Answer, seed: int = 1) -> tuple[float, list]:
    """Speed over plain decoding after some other request, and what was chosen."""
    runs: dict[str, Replay] = {name: arm(name, "two", seed) for name in ("none", "auto")}
    spent = {}
    for name, own in runs.items():
        own.host = False
        own.run(answer(fresh(30, 99), fresh(20, 98)))
        spent[name] = own.run(made)
    return spent["none"][0] / spent["auto"][0], spent["auto"][1]


@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_repeats_it_is_plain_decoding_within_two_percent(seed):
    speed, _ = replay(answer(fresh(100, seed), fresh(150, seed + 10)), seed)
    assert speed >= 0.98


def test_where_the_prompt_is_copied_it_drafts_from_the_first_token_on():
    page = fresh(120, 5)
    speed, choices = replay(answer(page, page))
    assert speed > 3
    assert choices[0].drafter != PLAIN


@pytest.mark.parametrize(
    ("tokens", "store", "begins"),
    [(REACH, False, "racer"), (REACH + 1, False, "racer+suffix"), (40, True, "racer+suffix")],
)
def test_who_begins_reads_all_there_is(tokens, store, begins):
    """RACER's n-grams reach back some way, suffix matches into everything and into a store."""
    own, view = arm("auto", "two", 1), rows_of(fresh(tokens, 1))
    own.drafter.store = SuffixStore("agent", 1000) if store else None
    own.drafter.admit(view)
    own.pacer.admit(view)
    assert own.drafter.chosen(0) == begins


def test_misleading_drafts_are_left_and_real_ones_found_again():
    """Words that always go on in another way, so that sources are sure and wrong; then a long copy."""
    draw = random.Random(3)
    words = [draw.randrange(8) for _ in range(400)]
    noisy, page = words[:200], fresh(200, 6)
    speed, choices = replay(answer(page + words[200:], noisy + page))
    assert speed > 1.3
    assert choices[-1].drafter != PLAIN
    assert len(choices) <= 8, "no flapping"


def test_shadows_wait_for_credit(monkeypatch):
    """A clock that makes each look at it cost a millisecond: shadows may not take more than their share."""
    seconds = iter(range(10**9))
    clock = SimpleNamespace(perf_counter=lambda: 1e-3 * next(seconds))
    monkeypatch.setattr("glimpse.pacing.auto_lookout.time", clock)
    begun = []
    monkeypatch.setattr("glimpse.pacing.auto_shadow.Shadow.wake", lambda self, reader: begun.append(reader))
    tokens = 400
    replay(answer(fresh(50, 1), fresh(tokens, 2)))
    # A stretch takes at least 17 milliseconds by this clock, a plain step 20, of which 0.3% is for shadows.
    assert 3 <= len(begun) <= 4 * (1 + tokens * 0.06 / (STRETCH + 1))


def test_it_goes_with_auto_alone():
    pacer = AutoPacer.build(PaceContext(StepCosts(1000, 1), None, True, lambda length: length))
    with pytest.raises(ArgumentError, match="pacer 'auto' chooses for drafter 'auto'"):
        pacer.attach(NoDrafter())


def chains(**context) -> EntropyPacer:
    """Self-drafted chains, of which a step costs half of a plain one."""
    costs = StepCosts(1000, 1, start=(1.0, 0.01, 0.01, 0.001, 0.001, 0, 0, 0, 0), lean=1e6)
    made = {"draft_tokens": 4, "drafts_at_once": False, "draft_positions": lambda length: 0} | context
    return EntropyPacer(PaceContext(costs=costs, **made))


def test_what_drafts_of_its_own_would_be_worth_follows_from_acceptance_and_prices():
    pacer, view = chains(), rows_of([1] * 1000)
    pacer.admit(view)
    rates = []
    for survival in (0.85, 0.9, 0.99):
        pacer.hope(0, survival)
        rates += pacer.speeds(view)
    assert rates == sorted(rates)
    # 1 + p + p^2 + p^3 + p^4 tokens in the time of four draft steps of 1.01 and a verification of 2.055.
    best = sum(0.99**place for place in range(5)) / (4 * 1.01 + 2.055) * 2.011
    assert rates[-1] == pytest.approx(best, rel=0.01)
    assert pacer.cost(view, 4) == pytest.approx((4 * 1.01 + 2.055) / 2.011, rel=0.01)
    assert pacer.cost(view, 0) == 1
    pacer.hope(0, 0.5)
    assert pacer.speeds(view) == rates[-1:], "hope takes nothing away"


def test_where_no_draft_is_allowed_it_is_worth_nothing():
    pacer, view = chains(draft_tokens=0), rows_of([1] * 10)
    pacer.admit(view)
    assert pacer.speeds(view) == [0.0]

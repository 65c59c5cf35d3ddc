"""What steps take beyond their floors: by hand, and found again by a fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from glimpse.bench.grow import SHAPES
from glimpse.bench.grow_plan import twin_spec
from glimpse.planning import DEVICES, Setting, make_plan
from glimpse.planning.models import DEMO_SPEC
from glimpse.planning.overheads import (
    COEFFICIENTS,
    LONG,
    LONG_FACTOR,
    Observed,
    Overheads,
    best_fit,
    fit,
    floor_of,
    terms_of,
)
from glimpse.planning.work import Step

LARGE = twin_spec(DEMO_SPEC, SHAPES["llama-3.1-8b"])
BF16 = torch.bfloat16
BANDWIDTH, RATE = 4e12, 800e12
TRUE = Overheads(
    layer=30e-6, few_layer=15e-6, arithmetic=1.5, gathering=0.5, learning=2.0, selecting=2.5, selecting_layer=2e-6
)  # fmt: skip
STEPS = [
    Step(rows, tokens, positions, learns=tokens > 1, selects=selects)
    for rows in (1, 8, 64)
    for positions in (512, 8000)
    for tokens, selects in ((0, True), (1, False), (5, True), (9, False))
] + [Step(rows, 1, 512, gathers=True) for rows in (1, 8, 64)]


def observed(spec, step, overheads=TRUE, few=4):
    floor = floor_of(spec, BF16, step, BANDWIDTH, RATE)
    terms = terms_of(spec, BF16, step, BANDWIDTH, RATE, few)
    return Observed(floor, terms, floor + overheads.seconds(terms))


def test_a_verification_by_hand():
    """9 tokens of each of 64 rows over 8,000 positions, 30 layers of 9 query and 3 KV heads of 64."""
    step = Step(64, 9, 8000, learns=True, selects=True)
    scores = 2 * 30 * 3 * 64 * 8000 / BANDWIDTH
    operations = 4 * 30 * 9 * 64 * 64 * 9 * 8000 / RATE
    terms = terms_of(DEMO_SPEC, BF16, step, BANDWIDTH, RATE, 4)
    assert terms.tolist() == pytest.approx([30, 0, operations, 0, scores, 4 * scores, 30])
    assert TRUE.seconds(terms) == pytest.approx(
        30 * 30e-6 + 1.5 * operations + 2 * scores + 2.5 * 4 * scores + 30 * 2e-6
    )


def test_a_draft_step_reads_its_set_here_and_there():
    """500 positions of each of 64 rows: keys and values of 3 heads of 64 in 30 layers, 2 bytes each."""
    plain, draft = (Step(64, 1, 500, gathers=gathers) for gathers in (False, True))
    more = terms_of(DEMO_SPEC, BF16, draft, BANDWIDTH, RATE, 4) - terms_of(DEMO_SPEC, BF16, plain, BANDWIDTH, RATE, 4)
    assert more.tolist() == pytest.approx([0, 0, 0, 2 * 2 * 30 * 3 * 64 * 64 * 500 / BANDWIDTH, 0, 0, 0])


def test_choosing_among_more_positions_than_registers_hold_takes_longer():
    short, long = (
        terms_of(DEMO_SPEC, BF16, Step(8, 0, positions, selects=True), BANDWIDTH, RATE, 4)[5]
        for positions in (LONG, LONG + 1)
    )
    assert long / short == pytest.approx(LONG_FACTOR, rel=1e-3)


def test_few_tokens_of_a_narrow_model_run_in_few_launches():
    assert terms_of(DEMO_SPEC, BF16, Step(4, 1, 100), BANDWIDTH, RATE, 4)[:2].tolist() == [0, 30]
    assert terms_of(DEMO_SPEC, BF16, Step(1, 5, 100), BANDWIDTH, RATE, 4)[:2].tolist() == [30, 0]
    assert terms_of(LARGE, BF16, Step(1, 1, 100), BANDWIDTH, RATE, 4)[:2].tolist() == [32, 0]


def test_without_a_forward_only_the_selection_is_left():
    step = Step(8, 0, 1000, selects=True)
    assert floor_of(DEMO_SPEC, BF16, step, BANDWIDTH, RATE) == 0
    terms = terms_of(DEMO_SPEC, BF16, step, BANDWIDTH, RATE, 4)
    assert terms[:5].tolist() == [0, 0, 0, 0, 0]
    assert (terms[5:] > 0).all()


def test_a_fit_finds_the_overheads_again():
    found = fit([observed(spec, step) for spec in (DEMO_SPEC, LARGE) for step in STEPS])
    for name in COEFFICIENTS:
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-6), name


@pytest.mark.parametrize("right", [4, 16, 64])
def test_a_fit_finds_out_what_few_tokens_are(right):
    taken = [observed(DEMO_SPEC, step, few=right).seconds for step in STEPS]

    def steps(few):
        pairs = zip(STEPS, taken, strict=True)
        return [replace(observed(DEMO_SPEC, step, few=few), seconds=took) for step, took in pairs]

    found = best_fit(steps)
    assert found.few_tokens == right
    assert found.few_layer == pytest.approx(15e-6, rel=1e-6)


def test_what_no_step_shows_stays_as_known():
    known = Overheads(few_layer=1.0, learning=7.0)
    found = fit([observed(LARGE, Step(rows, 1, 1000 * rows)) for rows in (1, 2, 5)], known)
    assert (found.few_layer, found.learning) == (1.0, 7.0)
    assert found.layer == pytest.approx(30e-6, rel=1e-6)


def test_steps_faster_than_their_floors_leave_nothing_negative():
    steps = [observed(DEMO_SPEC, step) for step in STEPS]
    found = fit([replace(one, seconds=max(one.floor, 1e-6) * 0.9) for one in steps])
    assert min(found.layer, found.few_layer, found.arithmetic, found.learning, found.selecting) >= 0
    assert np.isfinite(found.seconds(np.ones(7)))


def test_a_plan_prices_with_them():
    """A sparse round also gathers importance and chooses recall sets; a lookup round does not."""
    device = replace(DEVICES["h200"], bandwidth=BANDWIDTH, rate=RATE, overheads=TRUE)
    found = make_plan(Setting(DEMO_SPEC, BF16, 8000, 64, device), [])
    plain, verify = (observed(DEMO_SPEC, Step(64, tokens, 8000)).seconds for tokens in (1, 5))
    begin = observed(DEMO_SPEC, Step(64, 0, 8000, learns=True, selects=True)).seconds
    assert found.plain_seconds == pytest.approx(plain)
    assert found.verify(4) == pytest.approx(verify / plain)
    assert found.begin == pytest.approx(begin / plain)
    assert found.c == pytest.approx(observed(DEMO_SPEC, Step(64, 1, 800, gathers=True)).seconds / plain)

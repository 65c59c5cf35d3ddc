"""Acceptance by depth: the running rows' profile and each row's own factor."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.pacing.chances import KAPPA, PRIOR, DepthChances

MOST = 8


def taught(made: DepthChances, slot: int, chances: np.ndarray, rounds: int, seed: int = 0) -> None:
    """Rounds of `MOST` drafts accepted with these chances."""
    draw = np.random.default_rng(seed)
    for _ in range(rounds):
        right = draw.random(MOST) < chances
        made.learn(slot, MOST, MOST if right.all() else int(right.argmin()))


def test_a_new_request_has_the_papers_prior():
    made = DepthChances(MOST)
    made.admit(0)
    assert made.of((0,))[0] == pytest.approx(np.full(MOST, PRIOR))


def test_only_judged_tokens_count():
    """Of 5 drafted, 2 accepted: the third was judged and rejected, the others never seen."""
    made = DepthChances(MOST)
    made.admit(0)
    made.learn(0, 5, 2)
    row = made._rows[0]
    assert row.tries.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert row.misses.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert (row.missed, row.lately.tolist()) == (1, row.tries.tolist())


def test_it_learns_that_acceptance_falls_with_depth():
    made, chances = DepthChances(MOST), np.linspace(0.96, 0.75, MOST)
    for slot in range(16):
        made.admit(slot)
        taught(made, slot, chances, 60, seed=slot)
    found = made.of(tuple(range(16))).mean(0)
    assert found == pytest.approx(chances, abs=0.06)
    assert found[0] > found[-1] + 0.1


def test_rows_differ_by_their_own_text():
    """Ten rows at .95 and ten at .6 in one batch: after thirty rounds each half is nearer its own rate."""
    made, half = DepthChances(MOST), 10
    for slot in range(2 * half):
        made.admit(slot)
        taught(made, slot, np.full(MOST, 0.95 if slot < half else 0.6), 30, seed=slot)
    first = made.of(tuple(range(2 * half)))[:, 0]
    assert first[:half].mean() == pytest.approx(0.95, abs=0.09)
    assert first[half:].mean() == pytest.approx(0.6, abs=0.09)


def test_a_newcomer_is_taken_for_the_others():
    made = DepthChances(MOST)
    made.admit(0)
    taught(made, 0, np.full(MOST, 0.5), 60)
    made.admit(1)
    assert made.of((1,))[0, 0] == pytest.approx(1 - made.hazards[0])
    assert made.of((1,))[0, 0] < 0.7


def test_what_a_request_taught_is_gone_with_it():
    made = DepthChances(MOST)
    for slot in (0, 1):
        made.admit(slot)
    taught(made, 0, np.full(MOST, 0.2), 60)
    made.retire(0)
    assert made.of((1,))[0] == pytest.approx(np.full(MOST, PRIOR))


@pytest.mark.parametrize("accepted", [0, MOST])
def test_chances_stay_within_bounds(accepted):
    made = DepthChances(MOST)
    made.admit(0)
    for _ in range(500):
        made.learn(0, MOST, accepted)
    chances = made.of((0,))
    assert ((chances > 0) & (chances < 1)).all()


def test_the_factor_is_the_mean_of_its_gamma_law():
    made = DepthChances(MOST)
    made.admit(0)
    made.admit(1)
    made.learn(0, 3, 0)
    factor = (KAPPA + 1) / (KAPPA + made.hazards[0])
    assert 1 - made.of((0,))[0, 0] == pytest.approx(factor * made.hazards[0])

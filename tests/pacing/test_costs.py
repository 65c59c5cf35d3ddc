"""The step-time surface: right after a few steps, sensible before, never negative."""

from __future__ import annotations

import random

import numpy as np
import pytest

from glimpse.pacing.costs import ON_GPU, StepCosts, StepLoad, _least_squares

WEIGHTS, POSITION = 540_000_000, 46_000


def plain(length: int, rows: int = 1) -> StepLoad:
    return StepLoad(full_tokens=rows, full_kv=rows * length, pairs=rows * length)


def verifying(count: int, length: int) -> StepLoad:
    return StepLoad(full_tokens=count, full_kv=length + count, pairs=count * length)


def drafting(read: int, *, begins: bool = False) -> StepLoad:
    return StepLoad(draft_tokens=1, draft_kv=read, rounds=int(begins))


MIXED = drafting(400) + verifying(6, 3000) + StepLoad(mixed=1)
"""A step in which one row drafts and another verifies."""
TRUE = np.array([0.055, 0.004, 0.003, 2.0e-6, 2.2e-6, 2.0e-7, 0.006, 0.02, 0.01])


def seconds(load: StepLoad) -> float:
    """A made-up machine."""
    return float(load.features() @ TRUE)


def taught(noise: float, steps: int = 200) -> StepCosts:
    """Costs that have seen rounds of several lengths at several contexts on the made-up machine."""
    costs, draw = StepCosts(WEIGHTS, POSITION), random.Random(1)
    for _ in range(steps):
        length, count = draw.choice((500, 2000, 7000)), draw.choice((2, 5, 9, 13))
        loads = [plain(length), drafting(max(256, length // 10), begins=True)]
        loads += [drafting(max(256, length // 10)), verifying(count, length)]
        loads += [drafting(max(256, length // 10)) + verifying(count, length) + StepLoad(mixed=1)]
        for load in loads:
            costs.observe(load, seconds(load) * (1 + draw.uniform(-noise, noise)))
    return costs


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_it_recovers_a_linear_surface(noise):
    """Within a few percent, at loads seen and in between."""
    costs = taught(noise)
    for load in (plain(500), plain(4000), plain(7000), verifying(7, 3000), verifying(13, 7000), drafting(500), MIXED):
        assert costs.seconds(load) == pytest.approx(seconds(load), rel=0.05)


def test_one_slow_step_does_no_harm():
    costs = taught(0.02)
    before = costs.seconds(plain(2000))
    costs.observe(plain(2000), 20 * before)
    assert costs.seconds(plain(2000)) == pytest.approx(before, rel=0.02)


def test_never_negative():
    """Whatever is observed, contradictions included."""
    costs, draw = StepCosts(WEIGHTS, POSITION), random.Random(2)
    for _ in range(300):
        load = draw.choice((plain, drafting))(draw.randrange(1, 8000))
        costs.observe(load, draw.choice((1e-7, 0.01, 3.0)))
        assert (costs.coefficients >= 0).all()
        assert np.isfinite(costs.coefficients).all()
        assert costs.seconds(verifying(9, 100)) >= 0


def test_before_any_step_bytes_are_what_counts():
    costs = StepCosts(WEIGHTS, POSITION, bandwidth=20e9)
    assert costs.steps == 0
    bare = WEIGHTS / 20e9
    assert costs.seconds(plain(1)) == pytest.approx(bare, rel=0.1)
    longer = costs.seconds(plain(8000)) - costs.seconds(plain(0))
    assert longer == pytest.approx(8000 * POSITION / 20e9, rel=0.25)
    assert costs.seconds(drafting(800)) < costs.seconds(plain(8000))


def test_kinds_not_seen_are_scaled_to_this_machine():
    """Only plain steps were seen, on a machine a fifth as fast: a draft step's price is five times the bytes', too."""
    costs, bytes_say = StepCosts(WEIGHTS, POSITION), StepCosts(WEIGHTS, POSITION)
    for length in (1000, 1100, 3000, 3100) * 3:
        costs.observe(plain(length), 5 * bytes_say.seconds(plain(length)))
    for load in (drafting(300), drafting(300, begins=True), verifying(9, 2000)):
        assert costs.seconds(load) == pytest.approx(5 * bytes_say.seconds(load), rel=0.05)


def test_what_was_measured_outweighs_what_bytes_predict():
    """A machine on which launching a step is all that costs: a draft step is no cheaper than a plain one."""
    costs = StepCosts(1000, 1)
    for load in (plain(4000), verifying(9, 4000), drafting(400), drafting(400, begins=True)) * 9:
        costs.observe(load, 1.0)
    assert costs.seconds(drafting(400)) == pytest.approx(1.0, rel=0.06)
    assert costs.seconds(plain(4000)) == pytest.approx(1.0, rel=0.06)


def test_rows_share_the_constant():
    costs = taught(0.0)
    lengths = [2000, 1000, 2000, 3000]
    step = costs.coefficients[0]
    alone = step + costs.marginal(full_tokens=1, full_kv=2000, pairs=2000)
    of_four = step / 4 + costs.marginal(full_tokens=1, full_kv=lengths, pairs=lengths)
    assert alone == pytest.approx(costs.seconds(plain(2000)))
    assert alone - of_four[0] == pytest.approx(0.75 * float(costs.coefficients[0]))
    assert of_four.sum() == pytest.approx(costs.seconds(StepLoad(full_tokens=4, full_kv=8000, pairs=8000)))


def test_loads_add():
    assert plain(10) + drafting(5, begins=True) == StepLoad(1, 1, 10, 5, 10, 1)
    assert (plain(10) + StepLoad()).features().tolist() == [1, 1, 0, 10, 0, 10, 0, 0, 0]


def test_the_fit_is_for_the_batch_that_runs_now():
    """A step of one row is dearer than the line through all batches says: at one row that is what counts, at 64 not."""
    costs = StepCosts(WEIGHTS, POSITION)

    def runs(rows: int, fixed: float) -> list[float]:
        truth = [fixed + 0.001 * rows, fixed + 0.0002 * rows, fixed + 0.004 * rows]
        draft = StepLoad(draft_tokens=rows, draft_kv=500 * rows)
        verify = StepLoad(full_tokens=5 * rows, full_kv=rows * 8004, pairs=rows * 5 * 8000)
        loads = [plain(8000, rows), draft, verify]
        for load, seconds in [*zip(loads, truth, strict=True)] * 9:
            costs.observe(load, seconds)
        return [costs.seconds(load) / seconds for load, seconds in zip(loads, truth, strict=True)]

    for rows in (64, 16, 4):
        runs(rows, 0.02)
    assert runs(1, 0.03) == pytest.approx([1, 1, 1], rel=0.02)
    assert runs(64, 0.02) == pytest.approx([1, 1, 1], rel=0.02)


def test_a_prompt_read_in_between_is_not_the_batch_that_runs():
    costs = StepCosts(WEIGHTS, POSITION)
    for load in (plain(4000, 32), plain(4000, 32), StepLoad(full_tokens=512, full_kv=512, pairs=512 * 512)):
        costs.observe(load, 1.0)
    assert max(costs._running) == 32


def test_what_bytes_do_not_say_is_small_on_a_gpu():
    """A first draft of a large batch must not look as dear as ten steps: it would never be tried."""
    on_cpu, on_gpu = StepCosts(1000, 1), StepCosts(1000, 1, shares=ON_GPU)
    first = StepLoad(draft_tokens=64, draft_kv=64, rounds=64)
    assert on_cpu.seconds(first) > 10 * on_cpu.seconds(StepLoad())
    assert on_gpu.seconds(first) < 3 * on_gpu.seconds(StepLoad())


def test_what_it_remembers_is_bounded():
    """A66: any number of steps of any load; it stays as small and as quick."""
    costs, draw = StepCosts(WEIGHTS, POSITION), random.Random(3)
    for _ in range(3000):
        load = StepLoad(*(draw.randrange(1, 200), draw.randrange(9), 2 ** draw.randrange(5, 17), 300, 10, 1))
        costs.observe(load, 0.1)
    assert costs.steps <= 9 * StepCosts.KINDS
    costs.observe(plain(50), 0.1)
    assert costs.seen(plain(50)) == 1


def test_what_would_be_negative_is_left_out_of_the_fit():
    """x = (2, -1) fits best; without the second entry the first is not 2 but what fits best alone."""
    moment, target = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 0.0])
    assert _least_squares(moment, target).tolist() == [1.5, 0.0]
    assert _least_squares(moment, np.array([3.0, 3.0])) == pytest.approx([1.0, 1.0])


def test_too_few_kinds_of_step_leave_it_with_what_bytes_predict():
    """Plain steps of one length alone: right for them, and finite, positive and in proportion for all others."""
    costs, length = StepCosts(WEIGHTS, POSITION), 2000
    before = costs.coefficients.copy()
    for _ in range(9):
        costs.observe(plain(length), 0.3)
    assert costs.seconds(plain(length)) == pytest.approx(0.3, rel=0.02)
    assert (costs.coefficients > 0).all()
    assert costs.coefficients[2] / before[2] == pytest.approx(costs.coefficients[4] / before[4], rel=0.01)

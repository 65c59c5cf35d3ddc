"""What verifications cost beyond a line, in the sizes that a GPU runs them in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.pacing.test_marginal_pacer import LENGTH, pacer, rows_with

from glimpse.engine.device.covering import node_bucket
from glimpse.pacing.costs import BELIEVED, StepCosts, StepLoad, verifying
from glimpse.pacing.padding import Padding

TOKEN, STEP = 0.01, 1.0
PLAIN = StepLoad(full_tokens=1, full_kv=LENGTH, pairs=LENGTH)


class Line(StepCosts):
    """No step changes what is predicted."""

    @property
    def coefficients(self) -> np.ndarray:
        return self._start


def priced(position: float = 0.0) -> StepCosts:
    return Line(1000, 1, start=(STEP, TOKEN, TOKEN, position, 0, 0, 0, 0, 0))


def ran(costs: StepCosts, tokens: int, seconds: float, times: int = 9) -> None:
    for _ in range(times):
        costs.observe(StepLoad(full_tokens=tokens, full_kv=LENGTH + tokens - 1, pairs=tokens * LENGTH), seconds)


def fours(tokens: int) -> int:
    """Steps are made for 1, 4, 8, 12, ... tokens."""
    return tokens if tokens == 1 else -(-tokens // 4) * 4


def test_nodes_up_to_a_size_cost_what_the_size_costs():
    extra = Padding(priced(), fours).seconds(PLAIN, 9)
    assert extra / TOKEN == pytest.approx([0, 2, 1, 0, 3, 2, 1, 0, 3, 2], abs=1e-3)
    assert Padding(priced(), fours).tokens(6) == 8


def test_sizes_that_ran_are_priced_as_they_ran_and_others_between_and_beyond_them():
    costs = priced()
    for tokens, more in ((4, 0.3), (12, 0.1)):
        ran(costs, tokens, STEP + tokens * TOKEN + more)
    extra = Padding(costs, fours).seconds(PLAIN, 15)
    assert extra[0] == 0, "a plain step is what it is"
    assert extra[[3, 7, 11, 15]] / 0.9 == pytest.approx([0.3, 0.2, 0.1, 0.1], rel=1e-2)


def test_a_slow_step_is_believed_by_little():
    costs = priced()
    ran(costs, 4, 100.0, times=1)
    extra = Padding(costs, fours).seconds(PLAIN, 3)
    assert extra[3] == pytest.approx(BELIEVED * (STEP + 4 * TOKEN), rel=1e-2)


def test_a_size_that_was_fast_once_is_believed_by_half():
    costs = priced()
    ran(costs, 4, 0.5, times=1)
    found = costs.missed([verifying(8, LENGTH), verifying(4, LENGTH)])
    assert found == {1: pytest.approx((0.5 - 1.04) / 2, rel=1e-2)}
    assert costs.missed([verifying(8, LENGTH)]) == {}


def test_what_a_size_missed_is_told_of_its_own_load_not_of_the_one_asked_about():
    costs = priced(1e-3)
    for _ in range(9):
        costs.observe(StepLoad(full_tokens=4, full_kv=1000), STEP + 4 * TOKEN + 1.0 + 0.3)
    assert costs.missed([verifying(4, 700)]) == {0: pytest.approx(0.27, rel=1e-2)}


def tree(nodes: int) -> tuple[list[int], list[int], list[float]]:
    """That many tokens in the place of the next, each right with 0.03."""
    return list(range(10, 10 + nodes)), [-1] * nodes, [0.03] * nodes


def test_a_tree_fills_the_size_it_runs_in():
    """Five nodes pay at once, the others are right 0.05 times and cost 0.06: two of them fill a step of eight."""
    good = (list(range(10, 22)), [-1] * 12, [0.3] * 5 + [0.05] * 7)
    made = pacer(0.06)
    assert made.trim(rows_with(made, good)) == [5]
    made._padding = Padding(made._costs, lambda tokens: tokens if tokens == 1 else max(8, tokens))
    assert made.trim(rows_with(made, good)) == [7]


def test_dear_first_nodes_do_not_make_later_ones_dear():
    """A GPU's: any tree takes 1.4 plain steps, and a node 0.002. Only steps of eight ran, and the line says 0.01."""
    children = (list(range(10, 73)), [-1] + [0] * 62, [0.3] + [0.03] * 62)
    found = []
    for padded in (None, node_bucket):
        made = pacer(0.002)
        costs = made._costs = StepCosts(1000, 1, start=(STEP, 0.003, 0.003, 0, 0, 0, 0, 0, 0))
        made._padding = padded and Padding(costs, padded)
        ran(costs, 1, STEP + 0.002)
        ran(costs, 8, 1.4 + 0.002 * 8)
        assert costs.coefficients[1] > 0.008
        assert costs.foretold[1] == pytest.approx(0.003, rel=0.2)
        found.append(made.trim(rows_with(made, children))[0])
    assert found == [1, 63]


def test_auto_looks_steps_up_by_what_they_ran_with():
    made = pacer(0.01)
    assert made.runs_with(5) == 6
    made._padding = Padding(made._costs, node_bucket)
    assert [made.runs_with(nodes) for nodes in (0, 5, 17, 40)] == [1, 8, 24, 48]


def test_a_context_says_that_steps_are_padded():
    made = pacer(0.01, padded=fours)
    view = rows_with(made, tree(2), tree(2))
    assert made._padding is not None
    assert made._padding.seconds(replace(PLAIN, full_tokens=2), 2)[2] == pytest.approx(0.0, abs=1e-6)
    assert isinstance(view.rows.tokens, torch.Tensor)
    assert pacer(0.01)._padding is None


class Changing:
    """Steps run with multiples of `grain`."""

    version, grain = 0, 4

    def run_with(self, rows, tokens):
        return -(-tokens // self.grain) * self.grain


def test_sizes_that_change_are_followed():
    padding, sizes = Padding(priced(), lambda tokens: tokens), Changing()
    assert padding.seconds(PLAIN, 7)[1:] == pytest.approx(np.zeros(7), abs=1e-6)
    padding.follow(sizes)
    assert padding.seconds(PLAIN, 7)[1:] / TOKEN == pytest.approx([2, 1, 0, 3, 2, 1, 0], abs=1e-3)
    sizes.grain = 8
    assert padding.tokens(6) == 8
    assert padding.tokens(3) == 4, "as long as it does not say that they have changed"
    sizes.version = 1
    assert padding.seconds(PLAIN, 7)[1:] / TOKEN == pytest.approx([6, 5, 4, 3, 2, 1, 0], abs=1e-3)
    assert padding.tokens(3) == 8


def test_an_engine_that_knows_its_sizes_tells_the_pacer():
    good = (list(range(10, 22)), [-1] * 12, [0.3] * 5 + [0.05] * 7)
    made, sizes = pacer(0.06, padded=lambda tokens: tokens), Changing()
    assert made.trim(rows_with(made, good)) == [5]
    sizes.grain = 8
    made.runs_in(sizes)
    assert made.trim(rows_with(made, good)) == [7]
    pacer(0.06).runs_in(sizes)  # one without padding has no use for them


def test_sizes_are_asked_for_once():
    asked = []
    padding = Padding(priced(), lambda tokens: asked.append(tokens) or tokens)
    padding.seconds(PLAIN, 10)
    before = len(asked)
    padding.seconds(PLAIN, 10)
    assert len(asked) == before
    assert np.isfinite(padding.seconds(PLAIN, 20)).all()


@pytest.mark.parametrize("each", [1.0, 2.5])
def test_what_is_remembered_is_what_would_be_found_anew(each):
    """For other rows, lengths and nodes, and once another step has been seen; prepared or not."""
    costs, draw = priced(1e-5), np.random.default_rng(1)
    ran(costs, 1, STEP)
    kept = Padding(costs, fours)
    for _ in range(60):
        tokens = int(draw.integers(1, 40))
        ran(costs, tokens, STEP + tokens * TOKEN * draw.uniform(0.5, 2), times=int(draw.integers(0, 3)))
        rows, nodes = int(draw.integers(1, 4)), int(draw.integers(0, 30))
        plain = replace(PLAIN, full_tokens=rows, full_kv=LENGTH + int(draw.integers(0, 200)))
        if draw.random() < 0.5:
            kept.prepare(plain)
        anew = Padding(costs, fours)
        np.testing.assert_allclose(kept.seconds(plain, nodes, each), anew.seconds(plain, nodes, each), atol=1e-12)


def test_prices_are_prepared_while_nothing_waits():
    """What `trim` then asks for is known: no step's kind is looked up again."""
    made = pacer(0.01, padded=fours)
    made.prepare()
    rows_with(made, tree(5))
    made._padding.seconds(made._plain, 5)
    made.prepare()
    before = made._padding._known
    made._padding.seconds(made._plain, 3)
    assert made._padding._known is before
    ran(made._costs, 4, STEP)
    made.prepare()
    assert made._padding._known is not before

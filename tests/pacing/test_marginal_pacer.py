"""The pacer `marginal`: which nodes pay, what is learned of sources, and that trees stay trees."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chain import MarginalChainPacer
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.marginal import PLAIN_FIRST, MarginalPacer
from glimpse.pacing.pacer import Action, PaceContext
from glimpse.pacing.proposals import LEAST, SUREST, Proposal, Trust
from glimpse.pacing.spine import SpinePacer
from glimpse.pacing.worth import worthwhile

LENGTH = 1000
TREE = ([10, 11, 12, 13, 14, 15], [-1, -1, 0, 0, 2, 1], [0.7, 0.2, 0.8, 0.1, 0.9, 0.5])
"""Tokens, parents, confidence; reach .7 .2 .56 .07 .504 .1."""


def pacer(
    token: float, *, rows: int = 1, draft_tokens: int | None = None, step: float = 1.0, **context
) -> MarginalPacer:
    """Steps take `step` and `token` for each token; plain steps of `rows` rows were seen."""
    costs = StepCosts(1000, 1, start=(step, token, token, 0, 0, 0, 0, 0, 0), lean=1e6)
    for count in (1, rows):
        for _ in range(PLAIN_FIRST):
            load = StepLoad(full_tokens=count, full_kv=count * LENGTH, pairs=count * LENGTH)
            costs.observe(load, step + count * token)
    made = {"drafts_at_once": True, "draft_positions": lambda length: length} | context
    return MarginalPacer(PaceContext(costs=costs, draft_tokens=draft_tokens, **made))


def rows_with(made: MarginalPacer, *trees, source: int = 1) -> RowView:
    rows = Rows(len(trees), 2048, 64)
    view = RowView(rows, tuple(range(len(trees))))
    for slot, (tokens, parents, confidence) in enumerate(trees):
        rows.committed_len[slot] = LENGTH
        rows.put_draft(slot, torch.tensor(tokens), torch.tensor(parents), torch.tensor(confidence), source)
    made.admit(view)
    made.decide(view, [64] * len(view))
    return view


def kept(view: RowView, counts: list[int], slot: int = 0) -> tuple[list[int], list[int]]:
    begin = int(view.rows.committed_len[slot])
    tokens = view.rows.tokens[slot, begin : begin + counts[slot]].tolist()
    return tokens, view.rows.draft_parents[slot, : counts[slot]].tolist()


@pytest.mark.parametrize(
    ("token", "tokens", "parents"),
    [
        (5.0, [], []),
        (0.9, [10, 12], [-1, 0]),
        (0.3, [10, 12, 14], [-1, 0, 1]),
        (0.05, [10, 12, 14, 11], [-1, 0, 1, -1]),
        (0.001, [10, 12, 14, 11, 15, 13], [-1, 0, 1, -1, 3, 0]),
    ],
)
def test_the_dearer_a_node_the_fewer_are_kept_and_they_are_a_tree(token, tokens, parents):
    made = pacer(token)
    view = rows_with(made, TREE)
    counts = made.trim(view)
    assert kept(view, counts) == (tokens, parents)
    assert (0 in view.rows.branching) == (parents != list(range(-1, len(parents) - 1)))
    reach = np.cumprod(view.rows.draft_confidence[0, : counts[0]].numpy())
    right = {10: 0.7, 11: 0.2, 12: 0.56, 13: 0.07, 14: 0.504, 15: 0.1}
    assert reach == pytest.approx([right[token] for token in tokens], rel=1e-4)


@pytest.mark.parametrize(("waited", "tokens"), [(0.0, [10, 12, 14]), (2.0, [10, 12, 14, 11]), (30.0, [*range(10, 16)])])
def test_a_step_that_waited_for_the_host_has_room_for_more_nodes(waited, tokens):
    """As if the step itself took so much longer; one long wait among many is none."""
    made, longer = pacer(0.3), pacer(0.3, step=1.0 + waited)
    for seconds in (waited, waited, waited, 500.0):
        made._costs.wait(seconds)
    view, other = rows_with(made, TREE), rows_with(longer, TREE)
    found = kept(view, made.trim(view))[0]
    assert sorted(found) == sorted(tokens)
    assert found == kept(other, longer.trim(other))[0]


def test_nothing_is_kept_where_the_batch_is_full():
    """A token's price is a hundredth of the weights': one row drafts it all, of many rows only the surest nodes."""
    sizes = []
    for rows in (1, 30, 400):
        made = pacer(0.01, rows=rows)
        sizes.append(sum(made.trim(rows_with(made, *[TREE] * rows))) / rows)
    assert sizes[0] >= 5
    assert sizes[0] > sizes[1] > 0
    assert sizes[2] == 0


def best_by_trying(gains, prices, rows, seconds):
    nodes = [(row, node) for row, own in enumerate(gains) for node in range(len(own))]
    sets = chain.from_iterable(combinations(nodes, size) for size in range(1, len(nodes) + 1))
    rates = [
        (rows + sum(gains[row][node] for row, node in some)) / (seconds + sum(prices[row] for row, _ in some))
        for some in sets
    ]
    return max(rates, default=0)


@pytest.mark.parametrize("seed", range(12))
def test_no_set_of_nodes_is_worth_more(seed):
    draw = random.Random(seed)
    gains = [np.array([draw.random() for _ in range(draw.randrange(5))]) for _ in range(2)]
    prices, rows = [draw.uniform(0.02, 0.6) for _ in range(2)], 2
    found = worthwhile(gains, prices, rows, (1.0, 1.0))
    gain = rows + sum(own[nodes].sum() for own, nodes in zip(gains, found, strict=True))
    rate = gain / (1.0 + sum(price * len(nodes) for price, nodes in zip(prices, found, strict=True)))
    assert rate == pytest.approx(max(best_by_trying(gains, prices, rows, 1.0), rows))


def test_a_plain_step_that_is_cheaper_than_the_line_says_is_what_drafts_have_to_beat():
    gains = [np.array([0.3])]
    assert len(worthwhile(gains, [0.1], 1, (1.0, 1.0))[0]) == 1
    assert len(worthwhile(gains, [0.1], 1, (1.0, 0.8))[0]) == 0


def test_plain_steps_come_first():
    made = pacer(0.01)
    view = rows_with(made, TREE, TREE)
    assert made.trim(view) == [0, 0], "of two rows no plain step was seen"


def test_decisions_and_most():
    made = pacer(0.01, draft_tokens=9)
    assert made.most == 9
    assert pacer(0.01).most == 64
    assert pacer(0.01, can_draft=False).most == 0
    view = rows_with(made, TREE, TREE, TREE)
    decided = made.decide(view, [3, 0, 30])
    assert decided.actions == [Action.DRAFT, Action.PLAIN, Action.DRAFT]
    assert decided.room == [3, 0, 9]


def test_drafts_that_need_forwards_have_a_pacer_of_their_own():
    context = PaceContext(StepCosts(1, 1), 7, drafts_at_once=False, draft_positions=lambda length: length)
    made = MarginalPacer.build(context)
    assert isinstance(made, MarginalChainPacer)
    assert made.most == 7
    assert type(MarginalPacer.build(replace(context, drafts_at_once=True))) is MarginalPacer
    assert type(MarginalPacer.build(replace(context, branches=True))) is SpinePacer


def test_chains_are_cut_to_a_prefix():
    made = pacer(0.3)
    view = rows_with(made, ([10, 11, 12], [-1, 0, 1], [0.9, 0.9, 0.1]))
    assert made.trim(view) == [2]
    assert not view.rows.branching


def proposal(source: int = 1) -> Proposal:
    return Proposal.of(rows_with(pacer(0.01), TREE, source=source), 0)


def test_a_proposal_is_what_stands_in_the_row():
    found = proposal(source=3)
    assert found.tokens.tolist() == TREE[0]
    assert found.parents.tolist() == TREE[1]
    assert found.said == pytest.approx(TREE[2], rel=1e-4)
    assert found.source.tolist() == [3] * 6
    assert found.depth.tolist() == [1, 1, 2, 2, 3, 2]
    assert found.along(found.said) == pytest.approx([0.7, 0.2, 0.56, 0.07, 0.504, 0.1], rel=1e-4)


@pytest.mark.parametrize(("rate", "said"), [(0.9, 0.5), (0.3, 0.6), (0.05, 0.4)])
def test_trust_goes_to_how_often_a_source_is_right(rate, said):
    trust, draw = Trust(), random.Random(1)
    own = Proposal(np.array([7]), np.array([-1]), np.array([said]), np.array([2]), np.array([1]))
    for _ in range(600):
        trust.learn(own, [7 if draw.random() < rate else 8])
    assert trust.chances(own)[0] == pytest.approx(rate, abs=0.15)


def test_sources_and_depths_are_trusted_apart():
    trust, mine, other = Trust(), proposal(source=1), proposal(source=2)
    for _ in range(100):
        trust.learn(mine, [10, 99])  # the first token is right, its children never are
    chances = trust.chances(mine)
    assert chances[0] > 0.9
    assert chances[1] < 0.1, "of the same source and depth, but not so sure"
    assert chances[2] < 0.1
    assert chances[4] == pytest.approx(0.9, rel=1e-3), "never reached"
    assert trust.chances(other) == pytest.approx(other.said)


def test_no_node_is_certain():
    trust = Trust()
    for _ in range(100):
        trust.learn(proposal(), [10, 12, 14])
    assert trust.chances(proposal()).max() == SUREST


def test_no_node_is_impossible_until_the_text_says_so():
    """One that its source calls impossible is right as often as such nodes are; where they never are, trust goes."""
    trust = Trust()
    own = Proposal(np.array([7, 8]), np.array([-1, -1]), np.array([0.5, 1e-5]), np.array([2, 2]), np.array([1, 1]))
    assert trust.chances(own) == pytest.approx([0.5, LEAST])
    for _ in range(1000):
        trust.learn(own, [9])
    lost = trust.chances(own)[1]
    assert lost < LEAST
    for place in range(1000):
        trust.learn(own, [8 if place % 10 == 0 else 9])
    assert trust.chances(own)[1] > 4 * lost


def test_what_was_not_verified_is_judged_too():
    """Too dear to be verified, but the text shows that it was right."""
    made = pacer(5.0)
    view = rows_with(made, TREE)
    assert made.trim(view) == [0]
    before = made._states[0].trust.chances(proposal())[0]
    made.observe(view, [Outcome(0, 0, 0, [10])])
    assert made._states[0].trust.chances(proposal())[0] > before


def test_retire_frees():
    made = pacer(0.01)
    made.retire(rows_with(made, TREE))
    assert not made._states

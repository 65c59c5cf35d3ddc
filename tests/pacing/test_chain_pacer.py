"""The marginal criterion for self-drafted chains: when it drafts on, and what it gives back."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

import numpy as np
import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chain import MarginalChainPacer
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.pacer import Action, PaceContext
from glimpse.pacing.probe import FIRST_PROBE

LENGTH = 1000


def pacer(*, step=1.0, token=0.02, draft=0.02, cache=0.0, draft_tokens=12, **context) -> MarginalChainPacer:
    """Seconds of a step, and beside it of a verified token, of a drafted one, and of reading the row's whole cache."""
    costs = StepCosts(1, 1, start=(step, token, draft, cache / LENGTH, 0, 0, 0, 0, 0), lean=1e6)
    for _ in range(2):
        costs.observe(StepLoad(full_tokens=1, full_kv=LENGTH, pairs=LENGTH), step + token + cache)
    return MarginalChainPacer(PaceContext(costs, draft_tokens, False, lambda length: 100, **context))


def row(made: MarginalChainPacer, margins=(), said=0.5) -> RowView:
    """One admitted row whose draft tokens had these margins."""
    rows = Rows(1, 2048, 32)
    rows.committed_len[0] = LENGTH
    view = RowView(rows, (0,))
    made.admit(view)
    for margin in margins:
        draw(made, view, margin, said)
    return view


def draw(made, view, margin, said=0.5):
    made.hear(0, torch.tensor([7, 8]), torch.tensor([margin - 2.0, -2.0]))
    view.rows.add_draft(0, 7, said, 1.0)


def chances(made, view) -> list[float]:
    return made._of(view, 0, int(view.rows.draft_len[0])).tolist()


def drafted(made, view, margin, room=32) -> int:
    """How far it drafts when every token has this margin."""
    while made.decide(view, [room - int(view.rows.draft_len[0])]).actions[0] is Action.DRAFT:
        draw(made, view, margin)
    return int(view.rows.draft_len[0])


def test_wide_margins_make_long_drafts_and_narrow_ones_end_them():
    lengths = []
    for margin in (0.001, 0.2, 3.0):
        made = pacer(step=0.2, draft=0.1, token=0.01, cache=1.0)
        lengths.append(drafted(made, row(made), margin))
    assert lengths == sorted(lengths)
    assert lengths[0] < 4
    assert lengths[-1] >= 8


def test_no_draft_where_drafting_costs_as_much_as_decoding():
    made = pacer(draft=1.0, step=1.0)
    view = row(made)
    assert made.decide(view, [32]).actions == [Action.PLAIN]


def best_by_trying(made, view, *, step, token, draft) -> int:
    """The criterion written out: expected tokens of the row over the seconds of its round."""
    own = chances(made, view)
    gains = [0.0, *accumulate(accumulate(own, mul))]
    spent = len(own) * (step + draft) + step + token
    return int(np.argmax([(1 + gain) / (spent + token * count) for count, gain in enumerate(gains)]))


@pytest.mark.parametrize("token", [0.001, 0.02, 0.1, 1.0])
def test_what_is_verified_has_the_highest_rate(token):
    made = pacer(step=0.05, token=token, draft=0.02)
    view = row(made, [3.0, 2.0, 0.01, 1.0, 0.001, 0.02, 0.5])
    assert made.trim(view) == [best_by_trying(made, view, step=0.05, token=token, draft=0.02)]


def test_the_dearer_a_token_the_more_is_given_back():
    kept = []
    for token in (1e-4, 0.1, 0.5, 5.0):
        made = pacer(step=0.05, token=token, draft=0.01)
        kept += made.trim(row(made, [3.0, 2.0, 0.01, 0.01, 0.01, 0.01]))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == 6
    assert kept[-1] < 3


def test_a_trial_is_verified_whole():
    made = pacer(step=0.05, token=5.0, draft=0.01)
    view = row(made)
    for _ in range(FIRST_PROBE):
        made.observe(view, [Outcome(0, 0, 0, [1])])
    draw(made, view, 0.001)
    assert made.trim(view) == [1]


def test_nothing_is_given_back_where_all_that_was_drawn_has_to_be_verified():
    assert pacer().rolls_back
    assert not pacer(may_drop=False, same_noise=False).rolls_back


def test_margins_belong_to_the_draft_under_way():
    made = pacer()
    view = row(made, [0.001, 0.001])
    low = chances(made, view)
    view.rows.drop_draft(0)
    made.decide(view, [8])
    draw(made, view, 5.0)
    assert chances(made, view)[0] > max(low)
    made.observe(view, [Outcome(0, 1, 1, [7, 9])])
    assert not made._drawn[0].margins


def test_without_margins_it_goes_by_what_the_rows_say():
    """As on a GPU, whose rounds tell no margins."""
    made = pacer()
    view = row(made)
    view.rows.add_draft(0, 7, 0.05, 3.0)
    view.rows.add_draft(0, 7, 0.97, 0.2)
    low, high = chances(made, view)
    assert 0.5 < low < high < 1


def test_it_learns_of_judged_tokens_only():
    made = pacer()
    view = row(made, [0.5] * 4)
    before = chances(made, view)
    for _ in range(40):
        made.observe(view, [Outcome(0, 4, 0, [9])])
        for _ in range(4):
            made.hear(0, torch.tensor([7, 8]), torch.tensor([0.5, 0.0]))
    assert chances(made, view)[0] < before[0] - 0.3


def test_retire_frees():
    made = pacer()
    made.retire(row(made, [1.0]))
    assert not made._drawn
    assert not made._states

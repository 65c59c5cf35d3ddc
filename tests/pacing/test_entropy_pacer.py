"""The pacer `entropy`: the paper's formula, when it drafts, how far, and that it tries again."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.entropy import EntropyPacer, _RowState, survivals
from glimpse.pacing.pacer import Action, PaceContext
from glimpse.pacing.probe import FIRST_PROBE, LAST_PROBE
from glimpse.pacing.rounds import PLAIN_FIRST

LENGTH = 4000


def costs(draft: float, *, extra: float = 0.02) -> StepCosts:
    """Steps of one second plain, `draft` for a draft step, `extra` for each further token verified."""
    made = StepCosts(1000, 1)
    for _ in range(9):
        made.observe(StepLoad(full_tokens=1, full_kv=LENGTH, pairs=LENGTH), 1.0)
        for count in (3, 5, 9, 17):
            load = StepLoad(full_tokens=count, full_kv=LENGTH + count, pairs=count * LENGTH)
            made.observe(load, 1 + (count - 1) * extra)
        for begins in (0, 1):
            made.observe(StepLoad(draft_tokens=1, draft_kv=400, rounds=begins), draft)
    return made


def chances_of(state: _RowState, entropies) -> np.ndarray:
    """The survival of one row's draft tokens."""
    return survivals([state], np.array([entropies]))[0]


def pacer(draft: float, *, at_once: bool = False, draft_tokens: int | None = None, extra: float = 0.02) -> EntropyPacer:
    context = PaceContext(costs(draft, extra=extra), draft_tokens, at_once, lambda length: length // 10)
    return EntropyPacer(context)


def row(entropies: list[float] = (), confidence: list[float] = (), made: EntropyPacer | None = None) -> RowView:
    """One admitted row with a draft."""
    rows = Rows(1, 8192, 64)
    rows.committed_len[0] = LENGTH
    rows.draft_len[0] = max(len(entropies), len(confidence))
    rows.draft_entropy[0, : len(entropies)] = torch.tensor(entropies)
    rows.draft_confidence[0, : len(confidence)] = torch.tensor(confidence)
    view = RowView(rows, (0,))
    if made:
        made.admit(view)
    return view


def action(made: EntropyPacer, view: RowView, room: int = 64) -> Action:
    return made.decide(view, [room]).actions[0]


def drafted_length(made: EntropyPacer, view: RowView, entropy: float) -> int:
    """How far it goes when every token drafted has this entropy; the row's draft is emptied again."""
    rows = view.rows
    while action(made, view) is Action.DRAFT:
        rows.draft_entropy[0, int(rows.draft_len[0])] = entropy
        rows.draft_len[0] += 1
    length = int(rows.draft_len[0])
    rows.draft_len[0] = 0
    return length


def test_at_one_half_it_is_the_papers_softmax():
    """SparseSpec-L: survival = softmax of minus the distances to the two class means."""
    state = _RowState(survival=0.5, accepted=0.4, rejected=2.0)
    entropies = np.array([0.0, 0.4, 1.2, 2.0, 3.5])
    near, far = np.exp(-abs(entropies - 0.4)), np.exp(-abs(entropies - 2.0))
    assert chances_of(state, entropies) == pytest.approx(near / (near + far))


def test_survival_falls_with_entropy_and_rises_with_the_rate():
    state = _RowState()
    chances = chances_of(state, [0.1, 0.6, 1.2, 1.8])
    assert (np.diff(chances[1:]) < 0).all()
    assert (chances_of(_RowState(survival=0.95), [1.0]) > chances_of(state, [1.0])).all()


def test_it_learns_the_rate_and_the_classes():
    state = _RowState()
    for turn in range(400):
        state.learn(0.2 if turn % 4 else 3.0, bool(turn % 4))
    assert state.survival == pytest.approx(0.75, abs=0.05)
    assert state.accepted == pytest.approx(0.2, abs=0.01)
    assert state.rejected == pytest.approx(3.0, abs=0.01)
    assert chances_of(state, [0.2])[0] > 0.85
    assert chances_of(state, [3.0])[0] < 0.3


def test_only_judged_tokens_count():
    """Of 5 drafted, 2 accepted: the third was judged and rejected, the others never seen."""
    made = pacer(0.1)
    view = row([0.1, 0.2, 2.5, 9.0, 9.0], made=made)
    made.observe(view, [Outcome(0, 5, 2, [1, 2, 3])])
    expected = _RowState()
    for entropy, survived in ((0.1, True), (0.2, True), (2.5, False)):
        expected.learn(entropy, survived)
    assert made._states[0].survival == pytest.approx(expected.survival)
    assert made._states[0].rejected == pytest.approx(expected.rejected)


def test_where_drafting_costs_as_much_as_decoding_it_decodes():
    made = pacer(1.0)
    assert action(made, row(made=made)) is Action.PLAIN


def test_cheap_and_right_drafts_are_long():
    made = pacer(0.02, draft_tokens=16)
    view = row(made=made)
    made._states[0].survival = 0.98
    assert drafted_length(made, view, 0.3) == 16


@pytest.mark.parametrize("survival", [0.6, 0.8, 0.9])
def test_lengths_follow_cost_and_rate(survival):
    """Dearer drafts are shorter; and the length is near the best fixed one for that rate."""
    lengths = []
    for draft in (0.05, 0.15, 0.3, 0.6):
        made = pacer(draft, draft_tokens=32)
        view = row(made=made)
        state = made._states[0]
        state.survival = survival
        # An entropy whose evidence is the running mean: it says nothing beyond the rate.
        neutral = (state.accepted + state.rejected) / 2
        lengths.append(drafted_length(made, view, neutral))
        rates = [(1 - survival ** (k + 1)) / (1 - survival) / (1 + 0.02 * k + draft * k) for k in range(33)]
        assert rates[lengths[-1]] >= 0.93 * max(rates)
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_uncertain_tokens_end_the_draft():
    made = pacer(0.3)
    view = row([0.3, 0.3, 0.3], made=made)
    assert action(made, view) is Action.DRAFT
    view.rows.draft_entropy[0, :3] = 6.0
    assert action(made, view) is Action.VERIFY


def test_no_room():
    made = pacer(0.02)
    assert action(made, row(made=made), room=0) is Action.PLAIN
    view = row([0.3], made=made)
    assert action(made, view, room=0) is Action.VERIFY
    assert EntropyPacer(PaceContext(costs(0.1), None, False, lambda n: n, can_draft=False)).most == 0


def test_it_tries_again_later_and_ever_more_seldom():
    """Plain until FIRST_PROBE steps have passed, then one draft; after a failure twice as long, up to LAST_PROBE."""
    made = pacer(1.0)
    view = row(made=made)
    waits, streak = [], 0
    for _ in range(1200):
        probing = action(made, view) is Action.DRAFT
        drafted = 1 if probing else 0
        view.rows.draft_entropy[0, 0] = 1.0
        made.observe(view, [Outcome(0, drafted, 0, [1])])
        if probing:
            waits.append(streak)
            streak = 0
        else:
            streak += 1
    assert waits[:4] == [FIRST_PROBE, 2 * FIRST_PROBE, 4 * FIRST_PROBE, LAST_PROBE]
    assert set(waits[4:]) <= {LAST_PROBE}


def test_it_drafts_again_once_that_pays():
    made = pacer(0.1)
    view = row(made=made)
    made._states[0].survival = 0.02
    assert action(made, view) is Action.PLAIN
    made._states[0].survival = 0.9
    assert action(made, view) is Action.DRAFT


def test_plain_steps_are_measured_first():
    fresh = StepCosts(1000, 1)
    made = EntropyPacer(PaceContext(fresh, None, False, lambda length: 10))
    view = row(made=made)
    for _ in range(PLAIN_FIRST):
        assert action(made, view) is Action.PLAIN
        fresh.observe(StepLoad(full_tokens=1, full_kv=LENGTH, pairs=LENGTH), 1.0)
    assert action(made, view) is Action.DRAFT


@pytest.mark.parametrize(
    ("confidence", "extra", "kept"),
    [([0.95] * 8, 0.02, 8), ([0.001] * 8, 0.2, 0), ([0.9, 0.9, 0.001, 0.9, 0.9], 0.1, 2), ([], 0.1, 0)],
)
def test_host_drafts_are_cut_where_they_stop_paying(confidence, extra, kept):
    """By the drafter's own word, against the price of one more token verified."""
    made = pacer(1.0, at_once=True, extra=extra)
    assert made.trim(row(confidence=confidence, made=made)) == [kept]


def test_a_host_drafter_is_always_asked():
    made = pacer(1.0, at_once=True)
    assert action(made, row(made=made)) is Action.DRAFT
    assert action(made, row(made=made), room=0) is Action.PLAIN


def test_retiring_frees_the_state():
    made = pacer(0.1)
    view = row(made=made)
    made.retire(view)
    assert not made._states


def test_a_rate_of_one_or_none_stays_finite():
    state = _RowState()
    for survived in (True, False):
        for _ in range(1000):
            state.learn(1.0, survived)
        assert 0 < state.survival < 1
        assert math.isfinite(float(chances_of(state, [1.0])[0]))


@pytest.mark.parametrize(("draft", "tries"), [(0.9, True), (1.5, False)])
def test_a_trial_is_made_only_where_certain_drafts_would_pay(draft, tries):
    made = pacer(draft, extra=0.02)
    view = row(made=made)
    state = made._states[0]
    state.survival, state.probe.due = 0.1, True
    assert (action(made, view) is Action.DRAFT) == tries

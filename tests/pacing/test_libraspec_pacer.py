"""LibraSpec with its constant: whole drafts, chains, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.errors import ArgumentError
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.libra import ALPHA, search
from glimpse.pacing.libraspec import LibraSpecChainPacer, LibraSpecPacer
from glimpse.pacing.pacer import Action, PaceContext


def build(*, at_once=True, draft_tokens=12, **context):
    return LibraSpecPacer.build(PaceContext(StepCosts(1, 1), draft_tokens, at_once, lambda length: 10, **context))


def view_of(made, confidence=()):
    rows = Rows(1, 200, 16)
    rows.committed_len[0] = 100
    view, count = RowView(rows, (0,)), len(confidence)
    made.admit(view)
    if count:
        rows.put_draft(0, torch.arange(count), torch.arange(-1, count - 1), torch.tensor(confidence))
    return view


@pytest.mark.parametrize(
    "confidence", [[0.9] * 8, [0.9, 0.9, 0.9, 0.01, 0.9, 0.9], [0.3, 0.9], [0.9, 0.2, 0.2, 0.2], [0.1]]
)
def test_blocks_are_cut_where_the_search_cuts(confidence):
    made = build()
    length, _ = search(np.array(confidence, np.float32).astype(float), ALPHA, len(confidence), len(confidence))
    assert made.trim(view_of(made, confidence)) == [length]


def test_a_block_is_drafted_at_every_step():
    made = build()
    assert made.decide(view_of(made), [30]).actions == [Action.DRAFT]
    assert made.most == 12


def chain(said) -> tuple[LibraSpecChainPacer, RowView]:
    made = build(at_once=False, same_noise=False)
    assert isinstance(made, LibraSpecChainPacer)
    view = view_of(made)
    for chance in said:
        view.rows.add_draft(0, 5, chance, 1.0)
    return made, view


@pytest.mark.parametrize(
    ("said", "goes_on", "kept"), [((), True, 0), ((0.9,), True, 1), ((0.2,), False, 1), ((0.9, 0.9, 0.1), False, 3)]
)
def test_chains_go_on_while_there_is_credit(said, goes_on, kept):
    made, view = chain(said)
    actions = made._decide_one_more(view, np.array([len(said)]), np.array([8]))
    assert actions == [Action.DRAFT if goes_on else Action.VERIFY]
    assert made.trim(view) == [kept]
    assert made._decide_one_more(view, np.array([len(said)]), np.array([0]))[0] is not Action.DRAFT


@pytest.mark.parametrize(
    ("context", "said"),
    [({"trees": True}, "searches chains"), ({"at_once": False, "may_drop": False}, "gives drafted tokens back")],
)
def test_what_it_refuses(context, said):
    with pytest.raises(ArgumentError, match=said) as refused:
        build(**context)
    assert "\n" not in str(refused.value)

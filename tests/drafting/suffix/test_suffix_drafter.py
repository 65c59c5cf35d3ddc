"""Suffix decoding over rows: how much is drafted, what is learned, the store between requests."""

from __future__ import annotations

import pytest
from tests.drafting.histories import POOL, rows_of

from glimpse.cache.recall import RecallBudget
from glimpse.drafting.drafter import DraftContext, Drafter, Outcome
from glimpse.drafting.lookup import PRIOR
from glimpse.drafting.suffix.drafter import SuffixDrafter
from glimpse.drafting.suffix.store import SuffixStore
from glimpse.drafting.tree import Source
from glimpse.errors import ArgumentError

PAGE = list(range(100, 400))


def admitted(*texts, **options):
    drafter, view = SuffixDrafter(**options), rows_of(*texts)
    drafter.admit(view)
    return drafter, view


def commit(drafter, view, tokens):
    begin = int(view.rows.committed_len[0])
    view.rows.commit(0, tokens, begin)
    drafter.absorb(view, [Outcome(0, 0, 0, tokens)])


def test_it_is_a_drafter():
    drafter: Drafter = SuffixDrafter.build(DraftContext(POOL, RecallBudget(), nodes=12))
    assert drafter.budget == 12
    assert drafter.ready(rows_of([1])) == [True]
    assert drafter.store is None, "off by default"


@pytest.mark.parametrize(("match", "factor", "most"), [(3, 1.0, 3), (3, 2.0, 6), (8, 0.5, 4), (1, 1.0, 1)])
def test_the_longer_the_match_the_longer_the_draft(match, factor, most):
    drafter, view = admitted([*PAGE, 1, *PAGE[:match]], factor=factor)
    tokens = drafter.plan(view, [64]).tokens.tolist()
    assert tokens == PAGE[match : match + most]


def test_rows_room_and_budget():
    drafter, view = admitted([*PAGE, *PAGE[:20]], [1], [*PAGE, *PAGE[:20]], [*PAGE, *PAGE[:20]], budget=6)
    draft = drafter.plan(view, [4, 8, 0, 40])
    assert draft.offsets == (0, 4, 4, 4, 10)
    assert draft.parents.tolist() == [-1, 0, 1, 2, -1, 0, 1, 2, 3, 4]
    assert set(draft.source.tolist()) == {Source.SUFFIX}
    assert draft.confidence[0] == pytest.approx(PRIOR[-1])


@pytest.mark.parametrize(("truth", "surer"), [(PAGE[10:14], True), ([1, 2, 3], False)])
def test_it_learns_how_far_to_trust_a_match(truth, surer):
    drafter, view = admitted([*PAGE, *PAGE[:10]])
    before = drafter.plan(view, [8]).confidence[0]
    commit(drafter, view, truth)
    commit(drafter, view, [9999, *PAGE[:10]])
    assert (drafter.plan(view, [8]).confidence[0] > before) == surer


def test_committed_tokens_are_matched():
    drafter, view = admitted([1, 2, 3])
    commit(drafter, view, [1, 2])
    assert drafter.plan(view, [2]).tokens.tolist() == [3, 1]


def test_the_store_brings_back_what_an_earlier_request_wrote_and_only_that():
    store = SuffixStore("edits", 10_000)
    drafter, view = admitted([7, 8, 9], store=store)
    commit(drafter, view, PAGE[:50])
    drafter.retire(view)
    assert not drafter._sources
    later = rows_of([*PAGE[:10]], [7, 8])
    drafter.admit(later)
    draft = drafter.plan(later, [8, 8])
    assert draft.tokens.tolist() == PAGE[10:18]
    assert set(draft.source.tolist()) == {Source.STORE}
    assert draft.offsets == (0, 8, 8), "prompts are not kept"


def test_without_a_store_nothing_remains_and_names_do_not_mix():
    for stores in ((None, None), (SuffixStore("one", 1000), SuffixStore("two", 1000))):
        first, view = admitted([7], store=stores[0])
        commit(first, view, PAGE[:50])
        first.retire(view)
        second, later = admitted(PAGE[:10], store=stores[1])
        assert second.plan(later, [8]).tokens.tolist() == []


@pytest.mark.parametrize("options", [{"budget": 0}, {"factor": 0}, {"factor": -1}])
def test_wrong_settings_are_refused(options):
    with pytest.raises(ArgumentError, match="give at least 1 node, a factor > 0"):
        SuffixDrafter(**options)

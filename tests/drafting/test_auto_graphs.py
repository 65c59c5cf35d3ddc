"""`auto` on a GPU: one source on the host, which is told of prompts, and what is refused."""

from __future__ import annotations

import pytest
from tests.drafting.histories import POOL, rows_of

from glimpse.cache.recall import RecallBudget
from glimpse.drafting.auto_graphs import LONGEST_CHAIN, auto_on_graphs
from glimpse.drafting.drafter import DraftContext, Target
from glimpse.drafting.suffix.store import SuffixStore
from glimpse.errors import ArgumentError


def built(**context):
    return auto_on_graphs(DraftContext(POOL, RecallBudget(), nodes=8, **context))


def test_it_is_racer_that_is_told_the_successors_of_prompts():
    drafter = built()
    assert (drafter.name, drafter.source, drafter.budget, drafter.suffix) == ("auto", "racer", 8, False)
    assert drafter.wants_prompt_topk
    assert drafter.wants_successors
    assert drafter.in_step
    assert drafter.gives_tree


def test_with_a_store_it_matches_there_and_leaves_what_was_written():
    store = SuffixStore("agent", 100)
    drafter, view = built(store=store), rows_of([1, 2, 3])
    assert (drafter.source, drafter.suffix, drafter.wants_prompt_topk) == ("racer+suffix", True, True)
    drafter.admit(view)
    view.rows.commit(0, [7, 8, 9], 3)
    drafter.retire(view)
    assert len(store) == 4, "what was written and the separator"


def test_where_bits_count_it_is_lookup_with_chains_of_a_gpus_length():
    drafter, view = built(chains_only=True), rows_of(list(range(50)) * 2)
    assert (drafter.source, drafter.gives_tree, drafter.wants_successors) == ("lookup", False, False)
    drafter.admit(view)
    assert len(drafter.plan(view, [40]).tokens) == LONGEST_CHAIN
    assert len(drafter.plan(view, [3]).tokens) == 3


def test_what_would_mean_nothing_is_refused():
    with pytest.raises(ArgumentError, match="suffix_store means nothing"):
        built(chains_only=True, store=SuffixStore("agent", 100))
    with pytest.raises(ArgumentError, match=r"adapter 'x\.safetensors' means nothing"):
        built(target=Target(None, "", None, "x.safetensors"))

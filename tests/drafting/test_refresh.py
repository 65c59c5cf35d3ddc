"""The refresh layer: what is read there, how it chooses the next sets, and that nothing of it outlives a round."""

from __future__ import annotations

import pytest
import torch

from glimpse import LLM, SamplingParams
from glimpse.attention import Refresh, RowSpec, attend, plan_batch
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget, recall
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.refresh import HeadSets, PageSets, RefreshDrafter, agreement
from glimpse.errors import ArgumentError

LAYERS, HEADS, DIM = 3, 2, 4
BUDGET = RecallBudget(share=0.01, floor=12, sinks=2, recent=4)


def pool() -> PagePool:
    made = PagePool(CacheShape(LAYERS, HEADS, DIM), 64, 16, torch.float32)
    made.keys.normal_(generator=torch.Generator().manual_seed(0))
    made.values.normal_(generator=torch.Generator().manual_seed(1))
    return made


def setup(length: int, sets: str) -> tuple[RefreshDrafter, RowView]:
    """A drafter, refreshed at layer 1, with one row of `length` verified tokens and one more."""
    held = pool()
    rows = Rows(1, 1024, 16)
    sequence = Sequence(held, expected=512)
    sequence.reserve(length + 20)
    rows.open(0, list(range(length + 1)), sequence, 512)
    rows.verified_len[0] = length
    drafter, view = RefreshDrafter(held, BUDGET, sets, 1), RowView(rows, (0,))
    drafter.admit(view)
    return drafter, view


def looks(length: int, *positions: int, queries: int = 1) -> torch.Tensor:
    """Weights [HEADS, queries, length] on these positions only."""
    made = torch.zeros(HEADS, queries, length)
    made[..., list(positions)] = 1 / len(positions)
    return made


def verified(drafter: RefreshDrafter, view: RowView, *positions: int) -> None:
    length = int(view.rows.verified_len[0])
    drafter.absorb(view, [Outcome(0, 0, 0, [], looks(length, *positions, queries=16).expand(LAYERS, -1, -1, -1))])


def read(drafter: RefreshDrafter, view: RowView) -> torch.Tensor:
    (spec,) = drafter.plan(view, [1])
    return spec.recall.positions


def hear(drafter: RefreshDrafter, view: RowView, *positions: int) -> None:
    """A draft step whose query looks at these positions in the refresh layer."""
    (spec,) = drafter.plan(view, [1])
    spec.refresh.hear(looks(spec.stop, *positions))
    view.rows.add_draft(0, 9, 0.5, 1.0)


def test_at_the_layer_a_row_reads_everything_and_elsewhere_its_set():
    held, length = pool(), 40
    sequence = Sequence(held, expected=64)
    sequence.reserve(length + 1)
    positions = torch.arange(5, 25, 2).expand(LAYERS, HEADS, -1)
    heard: list[torch.Tensor] = []
    chosen = recall(held, sequence, positions, length)
    row = RowSpec(0, sequence, length, 1, recall=chosen, refresh=Refresh(1, heard.append))
    plain = RowSpec(0, sequence, length, 1, importance=1)
    sparse = RowSpec(0, sequence, length, 1, recall=chosen)
    q = torch.randn(1, 2 * HEADS, DIM, generator=torch.Generator().manual_seed(2))
    for layer in range(LAYERS):
        out, (weights,) = attend(q, held, plan_batch([row]), layer)
        like, (whole,) = attend(q, held, plan_batch([plain if layer == 1 else sparse]), layer)
        assert torch.equal(out, like)
        assert (weights is None) if layer != 1 else torch.equal(weights, whole)


def test_pages_are_one_set_of_whole_pages_for_all():
    drafter, view = setup(400, "pages")
    drafter._budget = RecallBudget(share=0.01, floor=160)
    drafter.admit(view)
    verified(drafter, view, 37)
    found = read(drafter, view)
    assert (found == found[0, 0]).all()
    assert found.shape == (LAYERS, HEADS, 160)
    assert set(range(32, 48)) <= set(found[0, 0].tolist())
    assert set(range(272, 400)) <= set(found[0, 0].tolist())


@pytest.mark.parametrize(("sets", "floor"), [("pages", 160), ("heads", 12)])
def test_the_next_step_reads_what_the_last_one_looked_at(sets, floor):
    drafter, view = setup(400, sets)
    drafter._budget = RecallBudget(share=0.01, floor=floor, sinks=2, recent=4)
    drafter.admit(view)
    verified(drafter, view, *range(20, 60))
    assert 200 not in read(drafter, view)[2, 1]
    hear(drafter, view, *range(200, 204))
    assert set(range(200, 204)) <= set(read(drafter, view)[2, 1].tolist())
    hear(drafter, view, 100)
    # One step's look lasts one step.
    assert 100 in read(drafter, view)[0, 0]
    assert 200 not in read(drafter, view)[0, 0]


@pytest.mark.parametrize("sets", ["pages", "heads"])
def test_a_verification_ends_it(sets):
    drafter, view = setup(400, sets)
    verified(drafter, view, *range(20, 60))
    before = read(drafter, view)
    hear(drafter, view, 200)
    view.rows.draft_len[0] = 0
    verified(drafter, view, *range(20, 60))
    assert torch.equal(read(drafter, view), before)


def test_a_head_that_looks_elsewhere_is_not_moved():
    """The refresh layer's fresh look counts for a head as far as both have looked at the same."""
    sets = HeadSets(pool(), BUDGET, layer=1)
    weights = looks(100, *range(20, 40), queries=16).repeat(LAYERS, 1, 1, 1)
    weights[2, 0] = looks(100, *range(60, 80), queries=16)[0]
    sets.verified(weights)
    assert agreement(sets.window.scores(100), 1)[2, 0].tolist() == [0, 0]
    apart = sets.positions(100)[2, 0].tolist()
    sets.drafted(looks(101, *range(50, 56)))
    found = sets.positions(100)
    assert found[2, 0].tolist() == apart
    assert set(range(50, 56)) <= set(found[0, 0].tolist())


def test_a_round_of_pages_begins_with_the_first_and_the_last_query():
    sets = PageSets(pool(), RecallBudget(share=0.01, floor=160), layer=1)
    weights = torch.zeros(LAYERS, HEADS, 3, 400)
    for query, position in enumerate((10, 100, 200)):
        weights[1, :, query, position] = 1.0
    sets.verified(weights)
    found = set(sets.positions(400)[0, 0].tolist())
    assert {10, 200} <= found
    assert 100 not in found


def test_options(tiny, tiny_folder):
    assert tiny.variant(drafter="refresh").settings["refresh_layer"] == 1
    made = tiny.variant(drafter="refresh", refresh_sets="pages", refresh_layer=0)
    assert (made.settings["refresh_sets"], made.settings["refresh_layer"]) == ("pages", 0)
    with pytest.raises(ArgumentError, match="refresh_layer must be from 0 to 1"):
        tiny.variant(drafter="refresh", refresh_layer=2)
    with pytest.raises(ArgumentError, match="refresh_sets: unknown name 'words'; known: heads, pages"):
        LLM(tiny_folder, drafter="refresh", refresh_sets="words")


@pytest.mark.parametrize("sets", ["pages", "heads"])
def test_the_text_is_that_of_plain_decoding(tiny, sets):
    prompts = [list(range(20, 120)), list(range(5, 70))]
    params = [SamplingParams(max_tokens=30, temperature=temperature, seed=3) for temperature in (0.0, 1.0)]
    plain = [out.token_ids for out in tiny.generate(prompts, params)]
    llm = tiny.variant(drafter="refresh", pacer="fixed", draft_tokens=4, refresh_sets=sets)
    outs = llm.generate(prompts, params)
    assert [out.token_ids for out in outs] == plain
    assert all(out.speculation.draft_steps > 10 for out in outs)
    assert not llm._engine.parts.drafter._states

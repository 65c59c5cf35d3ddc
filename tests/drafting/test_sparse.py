"""The sparse drafter: what its rows read, when it is ready, and that nothing is evicted."""

from __future__ import annotations

import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.sparse import WINDOW, SparseDrafter
from glimpse.sampling import SamplingParams

LAYERS, HEADS = 2, 2
BUDGET = RecallBudget(share=0.01, floor=12, sinks=2, recent=4)


def setup(length: int) -> tuple[SparseDrafter, RowView]:
    """A drafter with one row whose prompt of `length` tokens is verified but for the last."""
    pool = PagePool(CacheShape(LAYERS, HEADS, 4), 64, 16, torch.float32)
    pool.keys.normal_()
    rows = Rows(1, 1024, 16)
    sequence = Sequence(pool, expected=512)
    sequence.reserve(length + 20)
    rows.open(0, list(range(length)), sequence, 512)
    drafter, view = SparseDrafter(pool, BUDGET), RowView(rows, (0,))
    drafter.admit(view)
    rows.verified_len[0] = length - 1
    return drafter, view


def weights(length: int, queries: int, *positions: int) -> torch.Tensor:
    """Importance in which only `positions` are looked at."""
    made = torch.zeros(LAYERS, HEADS, queries, length)
    made[..., list(positions)] = 1.0
    return made


def verified(drafter: SparseDrafter, view: RowView, importance: torch.Tensor | None, accepted: int = 0) -> None:
    """One verification that accepted `accepted` tokens; the row grows by them and one."""
    rows = view.rows
    tokens = [7] * (accepted + 1)
    rows.commit(0, tokens, int(rows.committed_len[0]) + accepted)
    drafter.absorb(view, [Outcome(0, accepted, accepted, tokens, importance)])


def read(drafter: SparseDrafter, view: RowView) -> torch.Tensor:
    """The positions that the next draft row reads, [LAYERS, HEADS, B]."""
    (spec,) = drafter.plan(view, [1])
    return spec.recall.positions


def test_ready_only_with_the_newest_query():
    drafter, view = setup(100)
    assert drafter.ready(view) == [False]
    verified(drafter, view, weights(100, 16, 50))
    assert drafter.ready(view) == [True]
    verified(drafter, view, None)
    assert drafter.ready(view) == [False]
    verified(drafter, view, weights(102, 1, 50))
    assert drafter.ready(view) == [True]


def test_it_reads_sinks_recent_and_what_was_looked_at():
    drafter, view = setup(100)
    verified(drafter, view, weights(100, 16, 20, 21, 40, 41, 60, 61))
    assert read(drafter, view).tolist() == [[[0, 1, 20, 21, 40, 41, 60, 61, 96, 97, 98, 99]] * HEADS] * LAYERS


def test_a_position_dropped_comes_back():
    """The issue's own demand: nothing is evicted, so what was not read in one round is there in the next."""
    drafter, view = setup(100)
    pool = view.rows.sequence(0).pool
    for looked_at in ((20, 21, 22, 23, 24, 25), (60, 61, 62, 63, 64, 65), (20, 21, 22, 23, 24, 25)):
        length = int(view.rows.committed_len[0])
        verified(drafter, view, weights(length, WINDOW, *looked_at))
        (spec,) = drafter.plan(view, [1])
        assert set(looked_at) <= set(spec.recall.positions[0, 0].tolist())
        slots = view.rows.sequence(0).slots_of(spec.recall.positions)
        for layer in range(LAYERS):
            for head in range(HEADS):
                assert (spec.recall.keys[layer, head] == pool.keys[layer, head, slots[layer, head]]).all()


def test_the_window_keeps_the_last_queries_over_short_rounds():
    """Rounds of fewer than 16 queries: older ones still count, until 16 newer have come."""
    drafter, view = setup(100)
    verified(drafter, view, weights(100, 16, 50))
    for _ in range(5):
        length = int(view.rows.committed_len[0])
        verified(drafter, view, weights(length + 2, 3, 30), accepted=2)
    assert {30, 50} <= set(read(drafter, view)[0, 0].tolist())
    window = drafter._states[0].sets.window
    assert window.scores(100)[0, 0, 50] == 1
    assert window.scores(100)[0, 0, 30] == 15
    verified(drafter, view, weights(int(view.rows.committed_len[0]), 1, 30))
    assert window.scores(100)[0, 0, 50] == 0


def test_a_round_reads_one_set_and_all_that_follows():
    drafter, view = setup(100)
    verified(drafter, view, weights(100, 16, 50))
    (first,) = drafter.plan(view, [4])
    view.rows.add_draft(0, 9, 0.5, 1.0)
    (second,) = drafter.plan(view, [3])
    assert second.recall is first.recall
    assert (first.start, second.start, first.count, second.count) == (100, 101, 1, 1)
    assert first.recall.base == 100
    assert second.kv_read == 12 + 2


def test_retiring_frees_the_state():
    drafter, view = setup(40)
    drafter.retire(view)
    assert not drafter._states


def test_importance_is_that_of_kept_queries_alone(tiny):
    """Whatever was drafted and rejected: each kept query yields once the weights that it has in any other run."""
    ids, params = list(range(20, 120)), SamplingParams(max_tokens=40, temperature=1.0, seed=2)
    runs = []
    for draft_tokens in (1, 6):
        llm = tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=draft_tokens)
        drafter, rows, found = llm._engine.parts.drafter, llm._engine.parts.rows, {}
        real = drafter.absorb

        def absorb(view, outcomes, real=real, rows=rows, found=found):
            for outcome in outcomes:
                if outcome.importance is None:  # the last step, with no room for another draft
                    continue
                queries, length = outcome.importance.shape[2:]
                assert length == int(rows.verified_len[outcome.slot])
                assert queries == (outcome.accepted + 1 if found else WINDOW)
                for back in range(queries):
                    assert length - 1 - back not in found
                    found[length - 1 - back] = outcome.importance[:, :, -1 - back, : length - back].float()
            real(view, outcomes)

        drafter.absorb = absorb
        out = llm.generate([ids], params)[0]
        assert 0 < out.speculation.acceptance_rate < 1
        runs.append(found)
    common = sorted(runs[0].keys() & runs[1].keys())
    assert len(common) > 45
    for position in common:
        assert torch.allclose(runs[0][position], runs[1][position], atol=2e-3)


def test_recall_comes_back_through_the_engine(tiny):
    """Over a long output the recall sets of consecutive rounds drop positions and take them again."""
    llm = tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=3, budget=0.01, budget_floor=44)
    drafter = llm._engine.parts.drafter
    sets = []
    real = drafter._recalled

    def recalled(rows, slot, base):
        made = real(rows, slot, base)
        sets.append(set(made.positions[0, 0].tolist()))
        return made

    drafter._recalled = recalled
    llm.generate([list(range(20, 220))], SamplingParams(max_tokens=80, temperature=0.0))
    returned = {
        position
        for early, middle, late in zip(sets, sets[10:], sets[20:], strict=False)
        for position in (early & late) - middle
        if position < 150
    }
    assert len(returned) > 3

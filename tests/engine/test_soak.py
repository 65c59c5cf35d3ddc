"""Fourteen small soaks of many drafters and pacers, also where pages are scarce; `benchmarks/soak.py` has long ones."""

from __future__ import annotations

import pytest

from glimpse.bench.soak import Mix, soak
from glimpse.llm import LLM

MIX = Mix(requests=20, longest=150, most_tokens=24, preempted=0.3)
OPTIONS = (
    {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 3},
    {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 4, "budget_floor": 8},
    {"drafter": "sparse", "pacer": "entropy", "budget_floor": 8, "acceptance": "matched"},
    {"drafter": "none", "pacer": "fixed"},
    {"drafter": "refresh", "pacer": "fleet", "budget_floor": 8},
    {"drafter": "racer", "pacer": "fixed", "draft_tokens": 8},
    {"drafter": "sparse", "pacer": "feedback", "budget_floor": 8},
)


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=4, max_context=192)


def private_pages_only(llm, monkeypatch):
    """No forward may write into a page that others may share, or do."""
    pool, store = llm.loaded.pool, llm.loaded.prefixes
    write = pool.write

    def watched(layer, slots, keys, values):
        pages = set((slots // pool.page_size).tolist())
        assert not pages & store._nodes.keys()
        assert (pool._references[list(pages)] == 1).all()
        write(layer, slots, keys, values)

    monkeypatch.setattr(pool, "write", watched)


@pytest.mark.parametrize("seed", range(2 * len(OPTIONS)))
def test_every_request_is_as_if_alone(llm, monkeypatch, seed):
    """Odd seeds: a cache of 17 pages (one context takes 12), where not all that a request may write is promised."""
    plain, options = llm.variant(prefix_reuse=False), OPTIONS[seed % len(OPTIONS)]
    fast = llm.variant(**options, reserve="next" if seed % 2 else "full")
    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 48)
    private_pages_only(llm, monkeypatch)
    pool = llm.loaded.pool
    taken = pool.allocate(pool.free_pages - 17, 0) if seed % 2 else []
    try:
        found = soak(fast, plain, MIX, seed)
    finally:
        pool.release(taken)
    assert not found.faults, "\n".join(found.faults)
    assert found.counts["preempted"] > 0
    assert found.counts["length"] > 0

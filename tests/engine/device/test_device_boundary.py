"""The lossless sibling of Slow-Fast Inference as device steps: plain decoding's text, verified at boundaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.device.engines import ids_of, prompts_of, tiny_folder
from engine.device.test_device_trust import NARROW, params_of
from glimpse.cache.recall import RecallBudget
from glimpse.engine.build import make_parts
from glimpse.engine.device import boundary_work
from glimpse.engine.device.build import device_engine
from glimpse.engine.engine import Engine
from glimpse.llm import LLM


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("boundary"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


def sibling(llm, make, budget=NARROW, **options):
    other = llm.variant(drafter="slowfast", pacer=None, **options)
    parts = replace(make_parts(llm.loaded, other.options), budget=budget)
    parts.drafter._budget = budget
    other._engine = make(parts, other.options)
    return other


def test_rows_verify_at_their_own_boundaries(llm):
    """Four requests over three rows, drafts of three at most; the text is plain decoding's."""
    free = llm.loaded.pool.free_pages
    prompts, params = prompts_of(llm, 20, 49, 33, 12), params_of(6, 8, 6, 4)
    device = sibling(llm, device_engine, draft_tokens=3).generate(prompts, params)
    assert ids_of(device) == ids_of(llm.generate(prompts, params))
    for mine in device:
        assert 0 < mine.speculation.drafted == mine.speculation.draft_steps
        assert mine.speculation.trusted == 0
        assert mine.speculation.lossless
        assert set(mine.speculation.eager_steps) == {"no CUDA device"}
    assert llm.loaded.pool.free_pages == free


def test_where_drafts_read_everything_the_rounds_are_the_eager_engines(llm):
    """All drafts are accepted, and rounds end where the eager engine's do."""
    everything = RecallBudget(share=0.01, floor=260, sinks=4, recent=256)
    prompts, params = prompts_of(llm, 1, 40), params_of(8, 8)
    eager, device = (
        sibling(llm, make, budget=everything, draft_tokens=4).generate(prompts, params)
        for make in (Engine, device_engine)
    )
    assert ids_of(device) == ids_of(eager)
    for mine, right in zip(device, eager, strict=True):
        assert mine.speculation.drafted == mine.speculation.accepted == right.speculation.accepted > 0
        assert mine.speculation.rounds == right.speculation.rounds


def test_rows_without_room_in_a_step_wait(llm, monkeypatch):
    """Room for one row's verification and hardly more."""
    monkeypatch.setattr(boundary_work, "ROOM", 0)
    prompts, params = prompts_of(llm, 20, 33, 40), params_of(3, 4, 3)
    device = sibling(llm, device_engine, draft_tokens=2).generate(prompts, params)
    assert ids_of(device) == ids_of(llm.generate(prompts, params))


def test_a_draft_that_is_not_finite_is_dropped(llm):
    device = sibling(llm, device_engine, draft_tokens=4)
    engine, pool = device._engine, llm.loaded.pool
    held = pool.values[:, :, -16:].clone()
    (request,) = device._requests(prompts_of(llm, 33), params_of(6))
    engine.add(request)
    for _ in range(3):
        engine.step()
    pool.values[:, :, -16:] = torch.nan  # a page that no row has
    engine._core.recall.slots[:, 0, :, 0] = pool.values.shape[2] - 1
    while engine.busy:
        engine.step()
    pool.values[:, :, -16:] = held
    assert request.error is None
    assert list(request.committer.token_ids) == ids_of(llm.generate(prompts_of(llm, 33), params_of(6)))[0]


def test_short_verifications_fill_the_machine(llm, monkeypatch):
    """A row may have 64 tokens, in tiles; pieces are as many for each as where rows have one tile."""
    monkeypatch.setattr("glimpse.attention.triton.attention.processors", lambda device: 64)
    core = sibling(llm, device_engine)._engine._core
    usual, work = core.paged(3, core.rows.most + 1), boundary_work.BoundaryWork(core, 3, 1)
    assert usual.tiles > 1
    assert work._paged.splits.items >= usual.tiles * usual.splits.items
    assert work._paged.tiles == usual.tiles

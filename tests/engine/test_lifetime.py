"""What can happen around a request: threads, interrupts, parts that raise, too little memory; nothing is left over."""

from __future__ import annotations

import math
import shutil
import threading
from dataclasses import replace

import pytest
from safetensors.torch import load_file, save_file
from tests.doubles import Fixed, HostDrafter, with_parts
from tests.tiny import write_tiny_checkpoint

from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from glimpse.sampling.processors.penalties import Penalties

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("lifetime") / "tiny")


@pytest.fixture
def llm(folder):
    return LLM(folder, drafter="lookup", pacer="fixed", draft_tokens=4, max_batch_size=3, max_context=192)


def ledger(llm):
    pool = llm.loaded.pool
    return pool.free_pages, pool.promised, int(pool._wished.sum())


@pytest.mark.parametrize("drafter", ["none", "lookup", "sparse"])
def test_threads_share_one_llm(folder, drafter):
    llm = LLM(folder, pacer="fixed", max_batch_size=3, max_context=192).variant(
        drafter=drafter, draft_tokens=4, budget_floor=8
    )
    params = SamplingParams(max_tokens=30, temperature=0.9, seed=5)
    prompts = [[5, 6, 7] * k for k in (1, 3, 9, 20)]
    right = [llm.generate([ids], params)[0].token_ids for ids in prompts]
    found = [[] for _ in prompts]

    def work(index):
        for _ in range(3):
            found[index].append(llm.generate([prompts[index]], params)[0].token_ids)

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[ids] * 3 for ids in right]


def test_a_rejected_draft_token_with_nan_keys_does_not_break_the_row(folder, tmp_path):
    broken = tmp_path / "nan"
    shutil.copytree(folder, broken)
    weights = load_file(broken / "model.safetensors")
    weights["model.embed_tokens.weight"][250] = math.nan
    save_file(weights, broken / "model.safetensors")
    llm = LLM(broken, drafter="none", pacer="fixed", max_context=96, max_batch_size=2)
    params = replace(GREEDY, suppress_tokens=[250])
    right = llm.generate([[5, 6, 7]], params)[0].token_ids
    assert with_parts(llm, Fixed([250]), draft_tokens=2).generate([[5, 6, 7]], params)[0].token_ids == right


def test_an_interrupt_while_a_request_is_admitted_leaves_the_llm_usable(llm, monkeypatch):
    start, right = ledger(llm), llm.generate([[5, 6, 7]], GREEDY)[0].token_ids

    def interrupted(self, request):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Penalties, "state_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            llm.generate([[5, 6, 7]], GREEDY)
    assert ledger(llm) == start
    assert llm.generate([[5, 6, 7]], GREEDY)[0].token_ids == right


class Raises(HostDrafter):
    """Fails where it is told to."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def admit(self, rows):
        if self.where == "admit":
            raise ValueError("boom")
        super().admit(rows)

    def retire(self, rows):
        if self.where == "retire":
            raise ValueError("boom")
        super().retire(rows)

    def proposal(self, rows, slot, room):
        return [5] * room


@pytest.mark.parametrize("where", ["admit", "retire"])
def test_a_drafter_that_raises_leaks_no_pages_of_the_shared_pool(llm, where):
    start = ledger(llm)
    with pytest.raises(ValueError, match="boom"):
        with_parts(llm, Raises(where), draft_tokens=3).generate([[5, 6, 7]], GREEDY)
    assert ledger(llm) == start


def test_a_context_too_long_for_the_memory_names_what_fits(tmp_path):
    long = write_tiny_checkpoint(tmp_path / "long", max_position_embeddings=10**9)
    with pytest.raises(GlimpseError, match=r"max_context 1000000000 with .* max_context at most \d+ with"):
        LLM(long)


def test_an_absurd_batch_size_names_what_fits(folder):
    with pytest.raises(GlimpseError, match=r"max_batch_size 1000000000 needs .* max_batch_size at most \d+ at"):
        LLM(folder, max_batch_size=10**9)


def test_as_many_rows_run_at_once_as_asked(folder):
    """200 tokens are 12.5 pages: each row has room for 13."""
    llm = LLM(folder, drafter="none", max_batch_size=3, max_context=200)
    step, running = llm._engine.step, []
    llm._engine.step = lambda: (step(), running.append(len(llm._engine._running)))[0]
    llm.generate([[5]] * 3, SamplingParams(temperature=0.0, ignore_eos=True))
    assert max(running) == 3


def test_a_prompt_pinned_inside_a_progress_callback_leaves_the_outer_pin(tmp_path):
    long = write_tiny_checkpoint(tmp_path / "long", max_position_embeddings=2048)
    done = []

    def progress(stage, at, total):
        if stage == "prefill" and not done:
            done.append(1)
            with llm.pinned([9] * 90):
                pass

    llm = LLM(long, progress=progress, max_batch_size=2)
    with llm.pinned([7, 8, 9, 10, 11] * 300):
        assert len(llm.loaded.prefixes._kept) == 1


def test_a_callback_that_raises_keeps_no_request_running(llm):
    def boom(chunk):
        raise ValueError("boom")

    start = ledger(llm)
    with pytest.raises(ValueError, match="boom") as kept:
        llm.compare([7, 8, 9] * 20, GREEDY, on_chunk=boom)
    assert kept
    assert ledger(llm) == start
    assert not llm._engine.busy

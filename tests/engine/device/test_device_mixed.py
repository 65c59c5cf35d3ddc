"""Rows at their own pace: whatever each does at any step, the text is the eager engine's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from engine.device.engines import tiny_folder
from engine.device.pacers import Whim
from glimpse.attention.triton.mixed import Want
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.device.launch import Launcher
from glimpse.llm import LLM
from glimpse.pacing.pacer import Action
from glimpse.sampling.params import SamplingParams

SPARSE = {"drafter": "sparse", "pacer": "entropy", "budget": 0.1, "budget_floor": 38}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("mixed"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


@pytest.fixture
def mixtures(monkeypatch):
    """How often each set of wishes met in one step."""
    found, original = Counter(), Launcher.mixed

    def mixed(self, wants, pending):
        found[frozenset(wants)] += 1
        return original(self, wants, pending)

    monkeypatch.setattr(Launcher, "mixed", mixed)
    return found


def at_whim(llm, seed, actions=tuple(Action)):
    device = llm.variant(**SPARSE)
    parts = replace(make_parts(llm.loaded, device.options), pacer=Whim(seed, actions))
    device._engine = device_engine(parts, device.options)
    return device


def prompts_of(llm, *lengths):
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    return [ids[:length] for length in lengths]


def params_of(*tokens):
    return [
        SamplingParams(max_tokens=most, temperature=0.8 * (row % 2), seed=row, ignore_eos=True)
        for row, most in enumerate(tokens)
    ]


def ids_of(outputs):
    return [list(output.token_ids) for output in outputs]


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_at_whim_write_the_same_text(llm, mixtures, seed):
    """Five requests, greedy and sampled, over three rows: they join, leave and move while others draft."""
    prompts, params = prompts_of(llm, 20, 49, 33, 61, 12), params_of(4, 9, 6, 5, 7)
    free = llm.loaded.pool.free_pages
    device = at_whim(llm, seed)
    outputs = device.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert sum(output.speculation.accepted for output in outputs) > 0
    assert any(Want.DRAFT in wishes and max(wishes) >= Want.ADD for wishes in mixtures)
    assert len(mixtures) > 2
    assert not device._engine._pace._rows
    assert llm.loaded.pool.free_pages == free


def test_rows_that_never_draft_do_not_wait_for_those_that_do(llm, mixtures):
    """Nobody has to agree: each step either drafts for a row or writes at least one token of it."""
    prompts, params = prompts_of(llm, 20, 33), params_of(8, 8)
    outputs = at_whim(llm, 3, (Action.DRAFT, Action.PLAIN)).generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    for output in outputs:
        made = output.speculation
        assert made.draft_steps == made.drafted
        assert sum(made.draft_lengths.values()) <= len(output.token_ids)


def test_a_stop_and_a_cancellation_within_a_mixed_step(llm, mixtures):
    prompts = prompts_of(llm, 20, 33, 40)
    written = ids_of(llm.generate([prompts[0]], params_of(8)))[0]
    stops, (others, lost) = replace(params_of(8)[0], stop_token_ids=[written[3]]), params_of(8, 30)
    device = at_whim(llm, 5)
    engine, made = device._engine, device._requests(prompts, [stops, others, lost])
    for request in made:
        engine.add(request)
    while engine.busy:
        engine.step()
        if len(made[2].committer.token_ids) > 2 and not made[2].finished:
            engine.cancel(made[2])
    right = llm.generate(prompts[:2], [stops, others])
    assert [list(request.committer.token_ids) for request in made[:2]] == ids_of(right)
    assert mixtures

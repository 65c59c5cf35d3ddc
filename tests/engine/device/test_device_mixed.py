"""Rows at their own pace: whatever each does at any step, the text is the eager engine's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from engine.device.engines import ids_of, prompts_of, tiny_folder
from engine.device.pacers import Whim
from glimpse.attention.triton.mixed import Want
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.device.launch import Launcher
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

SPARSE = {"drafter": "sparse", "pacer": "entropy", "budget": 0.1, "budget_floor": 38}
EVERYTHING = SPARSE | {"budget": 1.0}


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


def at_whim(llm, seed, options=SPARSE):
    device = llm.variant(**options)
    parts = replace(make_parts(llm.loaded, device.options), pacer=Whim(seed))
    device._engine = device_engine(parts, device.options)
    return device


def params_of(*tokens):
    return [
        SamplingParams(max_tokens=most, temperature=0.8 * (row % 2), seed=row, ignore_eos=True)
        for row, most in enumerate(tokens)
    ]


@pytest.mark.parametrize(("seed", "options"), [(1, SPARSE), (2, EVERYTHING)], ids=["a glimpse", "everything"])
def test_rows_at_whim_write_the_same_text(llm, mixtures, seed, options):
    """Four requests, greedy and sampled, over three rows: they join, leave and move while others draft."""
    prompts, params = prompts_of(llm, 20, 49, 33, 17), params_of(3, 6, 5, 4)
    free = llm.loaded.pool.free_pages
    device = at_whim(llm, seed, options=options)
    outputs = device.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    drafted, accepted = (
        sum(getattr(output.speculation, name) for output in outputs) for name in ("drafted", "accepted")
    )
    assert drafted > 0
    if options is EVERYTHING:  # a draft that reads all the target reads
        assert accepted == drafted
    assert any(Want.DRAFT in wishes and max(wishes) >= Want.ADD for wishes in mixtures)
    assert not device._engine._pace._rows
    assert llm.loaded.pool.free_pages == free


def test_a_stop_and_a_cancellation_within_a_mixed_step(llm, mixtures):
    prompts = prompts_of(llm, 20, 33, 40)
    written = ids_of(llm.generate([prompts[0]], params_of(6)))[0]
    stops, (others, lost) = replace(params_of(6)[0], stop_token_ids=[written[2]]), params_of(5, 30)
    device = at_whim(llm, 5)
    engine, made = device._engine, device._requests(prompts, [stops, others, lost])
    for request in made:
        engine.add(request)
    while engine.busy:
        engine.step()
        if len(made[2].committer.token_ids) > 1 and not made[2].finished:
            engine.cancel(made[2])
    right = llm.generate(prompts[:2], [stops, others])
    assert [list(request.committer.token_ids) for request in made[:2]] == ids_of(right)
    assert mixtures

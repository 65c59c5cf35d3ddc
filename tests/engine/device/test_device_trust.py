"""Slow-Fast Inference as device steps: the eager engine's text, and as many steps of either kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from engine.device.engines import ids_of, prompts_of, tiny_folder
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.engine import Engine
from glimpse.engine.watch import Did, attach
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

NARROW = RecallBudget(share=0.01, floor=16, sinks=2, recent=4)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("trust"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")


def narrow(llm, *, device, budget=NARROW, selector=None, **options):
    """Fast steps read 16 positions; the least that options allow is the window of 256."""
    other = llm.variant(drafter="slowfast", pacer=None, lossy="slowfast", **options)
    parts = replace(make_parts(llm.loaded, other.options), budget=budget)
    parts.drafter._budget = budget
    parts.drafter._selector = selector or parts.drafter._selector
    other._engine = (device_engine if device else Engine)(parts, other.options)
    return other


def params_of(*tokens, **more):
    """Greedy and sampled in turn."""
    return [
        SamplingParams(max_tokens=most, temperature=0.9 * (row % 2), seed=row + 3, ignore_eos=True, **more)
        for row, most in enumerate(tokens)
    ]


def both(llm, prompts, params, **options):
    """Outputs of the eager engine, and of the device's."""
    return [narrow(llm, device=device, **options).generate(prompts, params) for device in (False, True)]


def test_rows_in_phases_of_their_own_write_the_eager_text(llm):
    """Four requests over three rows; slow steps after five fast ones, and at the ends of sentences."""
    free = llm.loaded.pool.free_pages
    eager, device = both(llm, prompts_of(llm, 20, 49, 33, 12), params_of(9, 14, 12, 8), draft_tokens=3)
    assert ids_of(device) == ids_of(eager)
    for mine, right in zip(device, eager, strict=True):
        found, wanted = mine.speculation, right.speculation
        assert found.trusted == wanted.trusted > 0
        assert found.draft_steps == wanted.draft_steps
        assert found.plain_steps == wanted.plain_steps
        assert (found.drafted, found.accepted) == (0, 0)
        assert found.lossy == "slowfast"
        assert not found.lossless
        assert set(found.eager_steps) == {"no CUDA device"}
    assert llm.loaded.pool.free_pages == free
    plain = llm.generate(prompts_of(llm, 20, 49, 33, 12), params_of(9, 14, 12, 8))
    assert ids_of(plain) != ids_of(device), "the sets matter, or this shows little"


def test_where_fast_steps_read_everything_the_text_is_plain(llm):
    """Also a prompt of one token, and outputs of none, one and two."""
    everything = RecallBudget(share=0.01, floor=260, sinks=4, recent=256)
    prompts, params = prompts_of(llm, 1, 2, 40, 17, 33), params_of(7, 1, 9, 0, 2)
    device = narrow(llm, device=True, budget=everything).generate(prompts, params)
    assert ids_of(device) == ids_of(llm.generate(prompts, params))
    assert [output.speculation.trusted for output in device][1:] == [0, 7, 0, 0]


def test_a_batch_that_does_not_fill_the_rows(tmp_path_factory):
    """Two layers, and one row of three: each layer's statistics lie where those of all rows would."""
    folder = tiny_folder(tmp_path_factory.mktemp("layers"), layers=2)
    deep = LLM(folder, drafter="none", pacer="fixed", max_batch_size=3, device="cpu")
    eager, device = both(deep, prompts_of(deep, 60), params_of(12), draft_tokens=2)
    assert ids_of(device) == ids_of(eager)


def test_the_sets_of_another_selector(llm):
    selector = Selector(power=0.5, age=2.0, reach=2, suppression=0.2)
    eager, device = both(llm, prompts_of(llm, 49), params_of(12), selector=selector, draft_tokens=2)
    assert ids_of(device) == ids_of(eager)


def test_ends_stops_and_the_end_of_the_context(llm):
    """A stop in the middle, an end of text that is not ignored, and a row that fills its context."""
    prompts = prompts_of(llm, 20, 33, 120)
    whole = ids_of(narrow(llm, device=False).generate(prompts, params_of(8, 8, 30)))
    params = [
        replace(own, stop_token_ids=[ids[4]], ignore_eos=row != 2)
        for row, (own, ids) in enumerate(zip(params_of(8, 8, 30), whole, strict=True))
    ]
    eager, device = both(llm, prompts, params)
    said = [[(out.token_ids, out.finish_reason, out.stop_reason) for out in outputs] for outputs in (eager, device)]
    assert said[0] == said[1]
    assert {out.finish_reason for out in device} >= {"stop"}


def test_requests_that_only_the_eager_engine_can_do_run_beside(llm):
    prompts, plain = prompts_of(llm, 20, 33), params_of(6, 6)
    params = [replace(plain[0], repetition_penalty=1.3), plain[1]]
    eager, device = both(llm, prompts, params)
    assert ids_of(device) == ids_of(eager)
    assert set(device[0].speculation.eager_steps) == {"repetition_penalty asked for"}
    assert device[0].speculation.trusted == eager[0].speculation.trusted > 0


def test_a_preempted_row_goes_on_and_a_cancelled_one_leaves_nothing(llm):
    """Read anew in full, a row's text is what the eager engine writes of that beginning."""
    free = llm.loaded.pool.free_pages
    prompts, (own, other, lost) = prompts_of(llm, 20, 33, 26), params_of(10, 8, 30)
    device = narrow(llm, device=True, draft_tokens=3)
    engine, made = device._engine, device._requests(prompts, [own, other, lost])
    for request in made:
        engine.add(request)
    for _ in range(6):
        engine.step()
    assert engine.preempt(made[0])
    written = list(made[0].committer.token_ids)  # with what was in flight
    assert 0 < len(written) < 10
    engine.cancel(made[2])
    while engine.busy:
        engine.step()
    found = [list(request.committer.token_ids) for request in made]
    assert len(found[0]) == 10
    assert found[0][: len(written)] == written
    assert made[0].preempted == 1
    eager = narrow(llm, device=False, draft_tokens=3)
    assert found[1] == ids_of(eager.generate([prompts[1]], [other]))[0]
    again = replace(own, max_tokens=10 - len(written))
    assert found[0][len(written) :] == ids_of(eager.generate([prompts[0] + written], [again]))[0]
    assert llm.loaded.pool.free_pages == free
    assert llm.loaded.pool.promised == 0


def test_who_watches_sees_fast_and_slow_steps(llm):
    found = []
    for device in (False, True):
        own, seen = narrow(llm, device=device, draft_tokens=2), Counter()
        attach(own._engine, lambda step, seen=seen: seen.update(zip(step.did, step.committed, strict=True)))
        own.generate(prompts_of(llm, 33), params_of(9))
        found.append({what: count for what, count in seen.items() if what[0] != Did.PREFILL})
    eager, device = found
    # The device's first token comes of a step of its own.
    assert device == eager | {(Did.PLAIN, 1): eager[Did.PLAIN, 1] + 1}
    assert device[Did.DRAFT, 1] > 0


def test_a_set_that_makes_logits_not_finite_is_made_anew_by_a_slow_step(llm):
    """A fast step that reads what is not finite writes nothing; where the row's own keys and values are so, its
    request ends."""
    device = narrow(llm, device=True)
    engine, pool = device._engine, llm.loaded.pool
    held = pool.values[:, :, -16:].clone()
    (good, bad) = device._requests(prompts_of(llm, 33, 40), params_of(8, 8))
    for request in (good, bad):
        engine.add(request)
    for _ in range(3):
        engine.step()
    pool.values[:, :, -16:] = torch.nan  # a page that no row has
    engine._core.recall.slots[:, 0, :, 0] = pool.values.shape[2] - 1
    own = engine._seats.taken[1].sequence.pages[2] * pool.page_size  # no prompt shares it
    pool.values[:, :, own] = torch.nan
    while engine.busy:
        engine.step()
    pool.values[:, :, -16:], pool.values[:, :, own] = held, 0.0
    assert good.error is None
    assert len(good.committer.token_ids) == 8
    assert "not finite" in str(bad.error)

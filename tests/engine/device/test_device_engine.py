"""The device engine writes what the eager engine writes, whoever joins, leaves or has to run beside."""

from __future__ import annotations

import pytest
import torch

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.engine.stream import run_all
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

pytestmark = pytest.mark.usefixtures("no_page_lost")
SPARSE = {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 2, "budget": 0.1, "budget_floor": 38}
LOOKUP = {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 3}
WHY = "no CUDA device"


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return LLM(
        tiny_folder(tmp_path_factory.mktemp("device")), drafter="none", pacer="fixed", max_batch_size=2, device="cpu"
    )


def test_rows_join_and_leave(llm):
    """Three requests over two rows: the first to end leaves its row to the last one, and that of the others moves."""
    prompts = prompts_of(llm, 20, 49, 33)
    params = [greedy(2), greedy(6), greedy(3)]
    device = on_device(llm, **SPARSE)
    outputs = device.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert sum(output.speculation.drafted for output in outputs) > 0
    assert all(set(output.speculation.eager_steps) == {WHY} for output in outputs)


def test_sampled_rows(llm):
    prompts = prompts_of(llm, 20, 49)
    params = [SamplingParams(max_tokens=2, temperature=0.8, seed=seed, ignore_eos=True) for seed in (1, 2)]
    assert ids_of(on_device(llm, **SPARSE).generate(prompts, params)) == ids_of(llm.generate(prompts, params))


def test_drafts_of_the_host(llm):
    """A prompt that says everything twice: lookup has drafts of several lengths, and none."""
    first, other = prompts_of(llm, 30, 17)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    prompts = [first[10:] + written + first[10:], other]
    outputs = on_device(llm, **LOOKUP).generate(prompts, greedy(4))
    assert ids_of(outputs) == ids_of(llm.generate(prompts, greedy(4)))
    assert outputs[0].speculation.drafted > 0


def test_prompts_are_read_in_parts_over_scattered_pages(llm, monkeypatch):
    """Parts of at most 16 tokens; another row goes on meanwhile."""
    for module in ("prefill", "reading"):
        monkeypatch.setattr(f"glimpse.engine.device.{module}.CHUNK", 16)
    prompts, pool = prompts_of(llm, 10, 57), llm.loaded.pool
    right = ids_of(llm.generate(prompts, greedy(4)))
    held = [page for first in (1, 3, 5) for page in pool.allocate(1, first)]
    device = on_device(llm, **SPARSE, prefix_reuse=False)
    engine, (short, long) = device._engine, device._requests(prompts, greedy(4))
    engine.add(short)
    engine.add(long)
    left = []
    while not (short.finished and long.finished):
        engine.step()
        left.append((engine.prefill_left(long), len(short.committer.token_ids)))
    pool.release(held)
    assert [list(request.committer.token_ids) for request in (short, long)] == right
    # 57 tokens are four parts; the first did not fit beside the short prompt.
    assert [count for count, _ in left[:4]] == [57, 42, 28, 14]
    assert left[2][1] > 0


def test_a_stop_ends_a_row_within_a_round(llm):
    (prompt,) = prompts_of(llm, 40)
    written = ids_of(llm.generate([prompt], greedy(6)))[0]
    params = greedy(6, stop_token_ids=[written[3]])
    right = llm.generate([prompt], params)[0]
    found = on_device(llm, **SPARSE).generate([prompt], params)[0]
    assert found.token_ids == right.token_ids
    assert found.text == right.text
    assert found.stop_reason == right.stop_reason == written[3]


def test_a_pinned_prompt_is_shared_and_only_its_tail_read(llm):
    (prompt,) = prompts_of(llm, 60)
    device, right = on_device(llm, **SPARSE), ids_of(llm.generate([prompt], greedy(3)))
    with device.pinned(prompt) as ids:
        chunks = device.stream(ids, greedy(3))
        next(chunks)
        (sequence,) = [held for held in device._engine.parts.rows.sequences if held]
        assert sequence.shared_len == 32  # whole pages of all but the last 16 tokens
        *_, last = chunks
    assert [list(last.output.token_ids)] == right


def test_a_cancelled_request_frees_its_row_at_once(llm):
    prompts = prompts_of(llm, 20, 33)
    device = on_device(llm)
    chunks = device.stream(prompts[0], greedy(40))
    next(chunks)
    chunks.close()
    assert not device._engine.busy
    assert ids_of(device.generate([prompts[1]], greedy(2))) == ids_of(llm.generate([prompts[1]], greedy(2)))


def test_requests_that_need_more_than_cuts_run_eagerly_beside(llm):
    prompts = prompts_of(llm, 20, 33)
    params = [greedy(3, repetition_penalty=1.3, logprobs=1), greedy(3)]
    found, right = on_device(llm).generate(prompts, params), llm.generate(prompts, params)
    assert ids_of(found) == ids_of(right)
    assert found[0].speculation.eager_steps == {"repetition_penalty, logprobs asked for": 3}
    assert [entry.token_id for entry in found[0].logprobs] == list(found[0].token_ids)
    assert set(found[1].speculation.eager_steps) == {WHY}


def test_an_engine_that_cannot_run_on_the_device_says_so(llm):
    (prompt,) = prompts_of(llm, 20)
    found = on_device(llm, acceptance="matched").generate([prompt], greedy(2))[0]
    assert list(found.token_ids) == ids_of(llm.generate([prompt], greedy(2)))[0]
    assert found.speculation.eager_steps == {"acceptance 'matched'": 2}


def test_logits_that_are_not_finite_end_their_request_only(llm):
    """One token's embedding overflows; it is the last of one prompt, and nowhere in the other."""
    prompts = prompts_of(llm, 20, 33)
    right = ids_of(llm.generate([prompts[1]], greedy(3)))[0]
    spoiled = next(token for token in range(3, 300) if token not in prompts[1] + right)
    weight = llm.loaded.checkpoint.decoder.embedding.weight
    kept = weight[spoiled].clone()
    device = on_device(llm, **SPARSE)
    bad, good = device._requests([[*prompts[0], spoiled], prompts[1]], greedy(3))
    with torch.inference_mode():
        weight[spoiled] = torch.nan
        run_all(device._engine, [bad, good])
        weight[spoiled] = kept
    assert isinstance(bad.error, GlimpseError)
    assert "not finite" in str(bad.error)
    assert list(good.committer.token_ids) == right


def test_a_row_may_fill_its_context(llm):
    (prompt,) = prompts_of(llm, 30)
    prompt = (prompt * 5)[:125]
    found = on_device(llm, **SPARSE).generate([prompt], SamplingParams(temperature=0.0, ignore_eos=True))[0]
    assert len(found.token_ids) == 3
    assert found.finish_reason == "length"
    assert [list(found.token_ids)] == ids_of(llm.generate([prompt], greedy(3)))


@pytest.mark.parametrize("options", [SPARSE, LOOKUP])
def test_a_request_put_back_goes_on_with_the_same_tokens(llm, options):
    """With steps in flight, and just after it was read; one that decodes eagerly too."""
    prompts, params = prompts_of(llm, 20, 33), [greedy(8), greedy(3, repetition_penalty=1.3)]
    right = ids_of(llm.generate(prompts, params))
    device = on_device(llm, **options)
    engine, requests = device._engine, device._requests(prompts, params)
    for request in requests:
        engine.add(request)
    for _ in range(2):
        engine.step()
        assert engine.preempt(requests[0])
    assert engine.preempt(requests[1])
    while engine.busy:
        engine.step()
    assert [list(request.committer.token_ids) for request in requests] == right
    assert [request.preempted for request in requests] == [2, 1]


def test_the_youngest_is_put_back_when_pages_run_out(llm, monkeypatch):
    """Two pages each at first, three in the end, of five: the second makes room for the first."""
    monkeypatch.setattr("glimpse.engine.residents._HEADROOM", 0)
    prompts, pool = prompts_of(llm, 25, 24), llm.loaded.pool
    right = ids_of(llm.generate(prompts, greedy(9)))
    device = on_device(llm, reserve="next", prefix_reuse=False)
    requests = device._requests(prompts, greedy(9))
    held = pool.allocate(pool.free_pages - 5, 99)
    run_all(device._engine, requests)
    pool.release(held)
    assert [list(request.committer.token_ids) for request in requests] == right
    assert [request.preempted for request in requests] == [0, 1]

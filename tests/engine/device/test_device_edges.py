"""The device engine at its edges: the shortest prompts and outputs, the first token a stop, a cancel at any step."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, on_device, prompts_of, tiny_folder
from glimpse.llm import LLM

pytestmark = pytest.mark.usefixtures("no_page_lost")
SPARSE = {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 2, "budget": 0.1, "budget_floor": 38}
LOOKUP = {"drafter": "lookup", "pacer": "entropy"}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return LLM(
        tiny_folder(tmp_path_factory.mktemp("edges")), drafter="none", pacer="fixed", max_batch_size=2, device="cpu"
    )


def said(outputs):
    return [(out.token_ids, out.text, out.finish_reason, out.stop_reason) for out in outputs]


def test_prompts_of_one_token_and_outputs_of_none_or_one(llm):
    """Five requests over two rows."""
    prompts, params = prompts_of(llm, 1, 2, 1, 17, 128), [greedy(3), greedy(1), greedy(1), greedy(0), greedy(4)]
    assert said(on_device(llm, **SPARSE).generate(prompts, params)) == said(llm.generate(prompts, params))


def test_the_first_token_may_be_a_stop(llm):
    prompts = prompts_of(llm, 40, 23)
    stops = [out.token_ids[0] for out in llm.generate(prompts, greedy(1))]
    params = greedy(9, stop_token_ids=stops)
    assert said(on_device(llm, **LOOKUP).generate(prompts, params)) == said(llm.generate(prompts, params))


@pytest.mark.parametrize("options", [SPARSE, LOOKUP])
def test_a_cancel_at_any_step_leaves_nothing(llm, options):
    prompts, device = prompts_of(llm, 7, 18, 3), on_device(llm, **options)
    engine = device._engine
    for steps in range(4):
        requests = device._requests(prompts, greedy(6))
        for request in requests:
            engine.add(request)
        for _ in range(steps):
            engine.step()
        for request in requests:
            engine.cancel(request)
        assert not engine.busy
        assert engine.step() == []
    assert said(device.generate(prompts[:1], greedy(2))) == said(llm.generate(prompts[:1], greedy(2)))

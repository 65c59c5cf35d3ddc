"""The bitwise mode on a GPU in 16 bits: no token differs, whatever drafts, whoever shares the batch."""

from __future__ import annotations

import pytest
import torch

from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from gpu.test_device_engine import ids_of, params_of, prompts_of
from tiny import write_tiny_checkpoint

DRAFTS = {
    "sparse": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 5, "budget": 0.1, "budget_floor": 40},
    "sparse, own pace": {"drafter": "sparse", "pacer": "entropy", "draft_tokens": 6, "budget": 0.1, "budget_floor": 40},
    "lookup": {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 9},
}


@pytest.fixture(scope="module", params=["bfloat16", "float16"])
def llm(request, tmp_path_factory):
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("bitwise") / "tiny", hidden_size=192, intermediate_size=320, head_dim=64,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=2048,
    )  # fmt: skip
    return LLM(
        folder, device="cuda", exact="bitwise", dtype=request.param, drafter="none", pacer="fixed", max_batch_size=8,
        prefix_reuse=False,
    )  # fmt: skip


def alone(llm, prompts, params):
    return [ids_of(llm.generate([prompt], [one]))[0] for prompt, one in zip(prompts, params, strict=True)]


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("name", DRAFTS)
def test_a_text_is_the_same_alone_and_drafted_among_others(llm, name, temperature):
    prompts = prompts_of(llm, 3, 700, 47, 100, 1300, 17, 640, 80, 65, 33)
    params = params_of(temperature, *[48] * len(prompts))
    right = alone(llm, prompts, params)
    drafted = llm.variant(**DRAFTS[name])
    assert ids_of(drafted.generate(prompts, params)) == right
    assert ids_of(llm.generate(prompts, params)) == right


def test_a_shared_prompt_changes_nothing(llm):
    prompts = prompts_of(llm, 700, 730, 760)
    params = params_of(1.2, 40, 40, 40)
    right = alone(llm, prompts, params)
    sharing = llm.variant(prefix_reuse=True, **DRAFTS["sparse"])
    assert [ids_of(sharing.generate([prompt], [one]))[0] for prompt, one in zip(prompts, params, strict=True)] == right


def test_a_request_put_back_writes_the_same(llm):
    prompts, params = prompts_of(llm, 700, 300), params_of(1.2, 60, 60)
    right = alone(llm, prompts, params)
    drafted = llm.variant(**DRAFTS["sparse"])
    engine, requests = drafted._engine, drafted._requests(prompts, params)
    for request in requests:
        engine.add(request)
    for step in range(2000):
        if not engine.busy:
            break
        engine.step()
        if step in (7, 12):
            engine.preempt(requests[step % 2])
    assert [list(request.committer.token_ids) for request in requests] == right


def test_what_it_refuses(llm):
    with pytest.raises(Exception, match="eagerly only"):
        llm.generate(["hello"], SamplingParams(repetition_penalty=1.1))
    assert torch.cuda.is_available()

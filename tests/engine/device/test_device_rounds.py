"""Device rounds write what the engine writes: one small model under Triton's interpreter."""

from __future__ import annotations

import pytest

from engine.device.batches import begins, made, texts
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint

TOKENS = 5


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    """One layer of widths that the narrow path takes, so that its kernels run too."""
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("device") / "tiny", num_hidden_layers=1, hidden_size=192, intermediate_size=64,
        head_dim=32,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glimpse.model.linear.can_pack", lambda dtype: False)  # weights as a GPU has them
        return LLM(folder, drafter="none", pacer="fixed")


def prompts_of(llm):
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    return [ids[:20], ids[:25]]


def params_of(temperature):
    return [
        SamplingParams(max_tokens=TOKENS, temperature=temperature, top_k=2, top_p=0.95, seed=seed, ignore_eos=True)
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(("temperature", "gamma"), [(0.0, 0), (0.8, 0), (0.0, 2), (0.8, 2)])
def test_the_text_is_the_engines(llm, temperature, gamma):
    prompts, params = prompts_of(llm), params_of(temperature)
    right = [list(output.token_ids) for output in llm.generate(prompts, params)]
    batch = made(llm._loaded.checkpoint.decoder, llm.tokenizer.vocab_size, prompts, params, 20)
    *_, found = texts(batch, gamma, 2)
    assert all(begins(own, other) for own, other in zip(right, found, strict=True))
    assert all(len(own) >= 2 for own in found)


def test_the_exact_statistic_drafts_the_same_text(llm):
    prompts, params = prompts_of(llm), params_of(0.8)
    right = [list(output.token_ids) for output in llm.generate(prompts, params)]
    decoder, vocab = llm._loaded.checkpoint.decoder, llm.tokenizer.vocab_size
    batch = made(decoder, vocab, prompts, params, 20, window=4)
    *_, found = texts(batch, 2, 2)
    assert all(begins(own, other) for own, other in zip(right, found, strict=True))
    assert (batch.recall.fresh.sum(-1) > 0).all()


def test_idle_rows_write_nothing_and_full_rows_go_idle(llm):
    prompts, params = prompts_of(llm), params_of(0.0)
    batch = made(llm._loaded.checkpoint.decoder, llm.tokenizer.vocab_size, prompts, params, 20)
    batch.rows.active[0] = 0
    batch.rows.limit[1] = batch.rows.length[1] + 2
    counts = [[len(own) for own in found] for found in texts(batch, 0, 3)]
    assert counts == [[0, 1], [0, 2], [0, 2]]
    assert batch.rows.active.tolist() == [0, 0]

"""`LLM` on a GPU through the eager engine: the CPU's texts in float32; memory is checked, freed and given back."""

from __future__ import annotations

import gc
import json
import math

import pytest
import torch

from glimpse.cli import app
from glimpse.engine.build import build_engine
from glimpse.engine.engine import Engine
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.pacing.calibration import device_name
from glimpse.sampling.params import SamplingParams
from model.gguf_files import write_tiny_gguf
from tiny import tiny_config, write_tiny_checkpoint

LAWS = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.8, "top_k": 20, "top_p": 0.95},
    "penalised": {
        "temperature": 0.9, "min_p": 0.01, "repetition_penalty": 1.2, "frequency_penalty": 0.3,
        "logit_bias": {7: 2.0}, "bad_words": [[9]], "min_tokens": 10,
    },
}  # fmt: skip
DRAFTERS = {
    "none": {"drafter": "none", "pacer": "fixed"},
    "lookup": {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 5},
    "sparse": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 4, "budget": 0.2, "budget_floor": 48},
    "sparse, entropy": {"drafter": "sparse", "pacer": "entropy", "budget": 0.2, "budget_floor": 48},
}


def eager(llm: LLM) -> LLM:
    """The same LLM through the engine that runs on any device."""
    built = build_engine(llm.loaded, llm.options)
    llm._engine = Engine(built.parts, built.options)
    return llm


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("cuda") / "tiny", max_position_embeddings=1024)


@pytest.fixture(scope="module")
def host(folder):
    return LLM(folder, drafter="none", pacer="fixed", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def gpu(folder):
    return LLM(folder, drafter="none", pacer="fixed", device="cuda", dtype="float32")


def prompts(llm: LLM) -> list[list[int]]:
    """One of several chunks, one short, one that looks into itself."""
    ids = llm.tokenizer.encode("the thing is that another one ate the hen on a road. " * 60)
    return [ids[:700], ids[5:14], ids[:90] + ids[:60]]


def texts(llm: LLM, **law) -> list[tuple[int, ...]]:
    params = [SamplingParams(max_tokens=24, seed=seed, ignore_eos=True, **law) for seed in (1, 2, 3)]
    return [output.token_ids for output in llm.generate(prompts(llm), params)]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("law", LAWS)
def test_the_text_is_the_cpus(host, gpu, law, drafter):
    llm = eager(gpu.variant(**DRAFTERS[drafter]))
    assert texts(llm, **LAWS[law]) == texts(host, **LAWS[law])
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_biases_and_norms_of_queries_and_keys(tmp_path, architecture):
    made = write_tiny_checkpoint(tmp_path / architecture, architecture, max_position_embeddings=1024)
    right = texts(LLM(made, drafter="none", device="cpu"), temperature=0.0)
    assert texts(eager(LLM(made, drafter="sparse", device="cuda:0", dtype="float32")), temperature=0.0) == right


def test_a_gguf_file(tmp_path):
    """Read as on the CPU, where its tied embedding stays in the file."""
    config = tiny_config(vocab_size=300, max_position_embeddings=1024, tie_word_embeddings=True)
    made = write_tiny_gguf(tmp_path / "tiny.gguf", config)
    right = texts(LLM(made, drafter="none", device="cpu"), temperature=0.7)
    llm = eager(LLM(made, drafter="sparse", device="cuda", dtype="float32"))
    assert llm.loaded.checkpoint.decoder.embedding.weight.is_cuda
    assert texts(llm, temperature=0.7) == right


def test_logprobs(host, gpu):
    params = SamplingParams(max_tokens=12, temperature=0.0, logprobs=3, prompt_logprobs=2)
    ids = prompts(host)[0][:40]
    right, found = host.generate([ids], params)[0], eager(gpu.variant(drafter="lookup")).generate([ids], params)[0]
    assert found.token_ids == right.token_ids
    for own, other in zip(
        found.prompt_logprobs[1:] + found.logprobs, right.prompt_logprobs[1:] + right.logprobs, strict=True
    ):
        assert own.token_id == other.token_id
        assert math.isclose(own.logprob, other.logprob, abs_tol=1e-4)
        assert [token for token, _ in own.top] == [token for token, _ in other.top]


def test_pins_streams_and_compare(host, gpu):
    llm, ids = eager(gpu.variant(**DRAFTERS["sparse"])), prompts(gpu)[0]
    params = SamplingParams(max_tokens=16, temperature=0.7, seed=5)
    right = host.generate([ids], params)[0]
    assert llm.compare(ids, params).identical
    *_, last = llm.stream(ids, params)
    assert last.output.token_ids == right.token_ids
    with llm.pinned(ids):
        assert llm.generate([ids], params)[0].token_ids == right.token_ids


def test_auto_is_the_gpu_in_bfloat16(folder, recwarn):
    llm = eager(LLM(folder, drafter="sparse", max_batch_size=2))
    assert (llm.settings["device"], llm.settings["dtype"]) == ("cuda:0", "bfloat16")
    assert llm.settings["cache_tokens"] == 2 * 1024
    assert [len(text) for text in texts(llm, temperature=0.8)] == [24] * 3
    assert not [warning for warning in recwarn if "glimpse" in str(warning.filename)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near_float32(folder, host, dtype):
    """Logprobs of one text by teacher forcing: attention over few and over many queries."""
    ids = prompts(host)[0][:200]
    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    outputs = [
        llm.generate([ids], params)[0].prompt_logprobs[1:]
        for llm in (host, eager(LLM(folder, drafter="none", dtype=dtype, device="cuda")))
    ]
    errors = [abs(own.logprob - other.logprob) for own, other in zip(*outputs, strict=True)]
    assert sorted(errors)[len(errors) // 2] < (0.15 if dtype == "bfloat16" else 0.02)


def test_an_absurd_batch_is_refused_before_anything_is_loaded(folder):
    held = torch.cuda.memory_allocated()
    with pytest.raises(GlimpseError, match=r"100000000 needs .* GiB free.*max_batch_size at most \d+ at"):
        LLM(folder, device="cuda", max_batch_size=10**8)
    assert torch.cuda.memory_allocated() == held


@pytest.fixture
def no_more_memory():
    """This process gets no more of the GPU's memory than it holds, which nobody can see beforehand."""
    gc.collect()
    torch.cuda.empty_cache()
    there = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / there)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_memory_that_runs_out_while_loading_leaves_nothing(folder, no_more_memory):
    held = torch.cuda.memory_allocated()
    with pytest.raises(GlimpseError, match=r"out of memory .*cuda:0\) has .* GiB free\): .* something else"):
        LLM(folder, device="cuda", max_batch_size=4000)
    assert torch.cuda.memory_allocated() == held


def test_memory_that_runs_out_while_running_costs_only_that_call(gpu, monkeypatch):
    llm = eager(gpu.variant(**DRAFTERS["none"]))
    right = texts(llm, temperature=0.0)
    held = torch.cuda.memory_allocated()
    with monkeypatch.context() as patch:
        patch.setattr("glimpse.engine.engine.forward", lambda *_: torch.empty(10**13, device="cuda"))
        with pytest.raises(GlimpseError, match=r"out of memory .* below 8 or a max_context below 1024"):
            texts(llm, temperature=0.0)
    assert torch.cuda.memory_allocated() == held
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages
    assert texts(llm, temperature=0.0) == right


def test_close_gives_the_memory_back(folder):
    def run() -> None:
        llm = LLM(folder, device="cuda", drafter="sparse")
        other = llm.variant(drafter="lookup")
        texts(llm, temperature=0.0)
        texts(other, temperature=0.0)
        assert torch.cuda.memory_allocated() > held
        llm.close()
        other.close()

    held = 0
    run()  # Libraries make their workspaces, which stay.
    held = torch.cuda.memory_allocated()
    run()
    assert torch.cuda.memory_allocated() == held


def test_doctor_names_the_gpu_and_the_path(capsys):
    assert app.run(["doctor", "--json"]) in (0, 1)
    checks = json.loads(capsys.readouterr().out)["checks"]
    name = torch.cuda.get_device_name(0)
    assert f"cuda:0 {name}, capability" in checks["GPU"]["said"]
    assert "GiB free; driver" in checks["GPU"]["said"]
    assert checks["device"]["said"] == "auto is cuda:0: a GPU that can be used"
    assert device_name(torch.device("cuda")) == name
